import os
import time

import numpy as np
import pandas as pd
import pytest

from tests.data.conftest import put
from tffapps.data import manifest as manifests
from tffapps.data import wilds
from tffapps.errors import UserError

NEEDED = ["patient", "node", "x_coord", "y_coord", "tumor", "center"]


def rows(centres=2, patients=10, nodes=2, of_each=5):
    """Every slide has as many patches of either label."""
    return [
        (f"{20 * centre + patient:03d}", node, 32 * number, 96, tumor, centre)
        for centre in range(centres)
        for patient in range(patients)
        for node in range(nodes)
        for tumor in (0, 1)
        for number in range(tumor * of_each, (1 + tumor) * of_each)
    ]


def lay_out(root, rows, columns=NEEDED, files=True):
    """metadata.csv as WILDS writes it, with a first column that has no name, and empty patches."""
    root.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows, columns=columns)
    table.assign(slide=0, split=1).to_csv(root / "metadata.csv")
    (root / "patches").mkdir(exist_ok=True)
    for patient, node, x, y, *_ in rows if files else []:
        slide = f"patient_{patient}_node_{node}"
        (root / "patches" / slide).mkdir(exist_ok=True)
        (root / "patches" / slide / f"patch_{slide}_x_{x}_y_{y}.png").touch()
    return root


def test_the_rows_become_a_manifest(tmp_path):
    given = [
        ("004", 4, 3328, 21792, 1, 0),
        ("004", 4, 3200, 22272, 0, 0),
        ("017", 1, 64, 0, 1, 0),
        ("017", 1, 0, 64, 0, 0),
        ("096", 0, 64, 64, 1, 4),
        ("096", 0, 0, 0, 0, 4),
        ("097", 0, 64, 64, 1, 4),
        ("097", 0, 0, 0, 0, 4),
    ]
    root = lay_out(tmp_path, given)
    table = wilds.read_wilds(root, train=0.5)
    assert list(table.columns) == ["path", "label", "client", "split", "subject"]
    assert table.path[0] == str(root / "patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png")
    assert list(table.label) == ["tumour", "normal"] * 4
    assert list(table.client) == ["centre0"] * 4 + ["centre4"] * 4
    assert list(table.subject[::2]) == ["patient_004", "patient_017", "patient_096", "patient_097"]
    manifests.check(table, labels=wilds.LABELS)
    assert manifests.classes(table) == list(wilds.LABELS)  # tumour is class 1


def test_numbers_are_numbers_however_they_are_written(tmp_path):
    given = [(patient, 1, 32 * tumor, 0, tumor, 0) for patient in (4, 17) for tumor in (0, 1)]
    root = lay_out(tmp_path, [(f"{row[0]:03d}", *row[1:]) for row in given])
    wanted = wilds.read_wilds(root, train=0.5)
    text = "patient,node,x_coord,y_coord,tumor,center\n"
    (root / "metadata.csv").write_text(text + "".join(",".join(f"{cell:.1f}" for cell in row) + "\n" for row in given))
    pd.testing.assert_frame_equal(wilds.read_wilds(root, train=0.5), wanted)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("together", wilds.TOGETHER)
def test_four_fifths_of_every_centre_and_label_train(tmp_path, together, seed):
    root = lay_out(tmp_path, rows())
    table = wilds.read_wilds(root, seed=seed, together=together)
    counts = table.groupby(["client", "label", "split"]).size().unstack()
    assert (counts["train"] == 80).all() and (counts["test"] == 20).all()
    whole = {"patient": r"(patient_\d+)_node", "slide": r"(patient_\d+_node_\d)/", "patch": r"([^/]+)$"}
    for name, pattern in whole.items():
        sides = table.split.groupby(table.path.str.extract(pattern, expand=False)).nunique()
        if wilds.TOGETHER.index(name) >= wilds.TOGETHER.index(together):
            assert (sides == 1).all()
        else:
            assert (sides == 2).any()
    manifests.check(table)


def test_patients_of_unlike_size(tmp_path):
    """The shares are met as nearly as whole patients allow."""
    rng = np.random.default_rng(0)
    given = [
        (f"{patient:03d}", 0, 32 * number, 0, int(rng.random() < 0.4), 0)
        for patient in range(10)
        for number in range(rng.integers(20, 100))
    ]
    table = wilds.read_wilds(lay_out(tmp_path, given))
    assert table.groupby("subject")["split"].nunique().max() == 1
    shares = table.split.eq("train").groupby(table.label).mean()
    assert shares.between(0.75, 0.85).all()


def test_the_seed_decides(tmp_path):
    root = lay_out(tmp_path, rows())
    first = wilds.read(root, seed=3)
    pd.testing.assert_frame_equal(first, wilds.read(root, seed=3))
    assert not first.split.equals(wilds.read(root, seed=4).split)


def test_every_folder_is_listed_once_and_no_file_is_asked_for(tmp_path, monkeypatch):
    root = lay_out(tmp_path, rows(centres=1))
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: (listed.append(str(folder)), scandir(folder))[1])
    asked, stat = [], os.stat
    monkeypatch.setattr(os, "stat", lambda path, *rest, **more: (asked.append(str(path)), stat(path, *rest, **more))[1])
    assert len(wilds.read_wilds(root)) == 200
    assert len(listed) == len(set(listed)) == 1 + 20
    assert not [path for path in asked if path.endswith(".png")]


def test_many_rows_take_seconds(tmp_path, monkeypatch):
    """No loop over rows: what the folders hold is made up, as writing so many files would take a minute."""
    count = 150_000  # a third of the real set
    number = np.arange(count)
    slide = number % 50
    table = pd.DataFrame(
        {
            "patient": [f"{patient:03d}" for patient in 2 * slide],
            "node": 0,
            "x_coord": 32 * (number // 50 % 100),
            "y_coord": 32 * (number // 5000),
            "tumor": number // 50 % 2,
            "center": slide // 10,
        }
    )
    table.to_csv(tmp_path / "metadata.csv")
    (tmp_path / "patches").mkdir()
    monkeypatch.setattr(wilds, "_check_files", lambda folder, rows, inside: None)
    begin = time.process_time()
    found = wilds.read_wilds(tmp_path)
    assert time.process_time() - begin < 8
    assert len(found) == count and found.client.nunique() == 5
    assert found.split.eq("train").mean() == pytest.approx(0.8, abs=0.001)


def without_column(root):
    lay_out(root, [row[:5] for row in rows()], NEEDED[:5])


def without_files(root):
    lay_out(root, rows())
    for file in sorted((root / "patches/patient_003_node_1").iterdir())[:4]:
        file.unlink()


def changed(index, value):
    def make(root):
        given = [list(row) for row in rows()]
        given[7][index] = value
        lay_out(root, given, files=False)

    return make


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda root: None, r"no such file; give the folder that holds metadata\.csv and patches/"),
        (
            without_column,
            r"metadata\.csv: no column center \(found: patient, node, x_coord, y_coord, tumor, slide, spl",
        ),
        (
            lambda root: (root / "metadata.csv").write_text(""),
            r"metadata\.csv: empty; its first line must hold patient",
        ),
        (lambda root: lay_out(root, []), r"metadata\.csv: no rows"),
        (lambda root: (root / "metadata.csv").write_bytes(b"\xff\xfe\x00"), r"metadata\.csv: cannot be read"),
        (lambda root: (root / "metadata.csv").write_text("a,b\n1,2,3\n1,2,3,4\n"), r"metadata\.csv: cannot be read"),
        (
            without_files,
            r"patches: 4 of 400 patches in metadata\.csv have no file, such as "
            r"patient_003_node_1/patch_patient_003_node_1_x_0_y_96\.png, patient_003_node_1/",
        ),
        (lambda root: lay_out(root, rows(), files=False), "400 of 400 patches in metadata.csv have no file"),
        (changed(0, "seven"), r"1 rows with a patient that is no whole number, such as line 9 \(patient seven"),
        (changed(2, ""), "1 rows with a x_coord that is no whole number, such as line 9"),
        (changed(3, 1.5), "1 rows with a y_coord that is no whole number"),
        (changed(5, -1), "1 rows with a center that is no whole number"),
        (changed(4, 2), "1 rows with a tumor that is neither 0 nor 1"),
        (changed(2, 64), "1 rows with the place of an earlier row"),
        (lambda root: lay_out(root, [*rows(1), ("099", 0, 0, 0, 1, 4)]), "centre4: a single patch"),
        (
            lambda root: lay_out(root, [*rows(1), *(("099", 0, x, 0, 1, 4) for x in range(9))]),
            "centre4: all of its 9 pa",
        ),
        (lambda root: lay_out(root, rows(1, patients=1)), "centre0, 20 patches of 1 subjects: 1 groups for 2 parts"),
        (
            lambda root: lay_out(root, [(f"{x % 5:03d}", 0, x, 0, int(x % 5 > 0), 0) for x in range(50)]),
            "centre0, 50 patches of 5 subjects, which are never divided: no normal to (train|test) with",
        ),
    ],
)
def test_bad_data_is_said_in_one_line(tmp_path, make, expected):
    make(tmp_path)
    with pytest.raises(UserError, match=expected) as error:
        wilds.read_wilds(tmp_path)
    assert str(tmp_path) in str(error.value) or str(error.value).startswith("centre")
    assert "\n" not in str(error.value)


def test_no_folder_and_wrong_arguments(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder; lay the patches out"):
        wilds.read(tmp_path / "nowhere")
    put(tmp_path, "file")
    with pytest.raises(UserError, match="file: not a folder; give the folder that holds"):
        wilds.read_wilds(tmp_path / "file")
    lay_out(tmp_path / "c", rows())
    with pytest.raises(UserError, match="together is 'centre'; choose one of patient, slide, patch"):
        wilds.read_wilds(tmp_path / "c", together="centre")
    for share in (0, 1, 80):
        with pytest.raises(UserError, match=f"train {share}: the share"):
            wilds.read_wilds(tmp_path / "c", train=share)
    (tmp_path / "d").mkdir()
    lay_out(tmp_path / "d", rows())
    os.rename(tmp_path / "d/patches", tmp_path / "d/images")
    with pytest.raises(UserError, match="d/patches: no such folder; give"):
        wilds.read_wilds(tmp_path / "d")


def scanners(root, slides=10, name="s{slide}_{number}_0.png"):
    return put(
        root,
        *(
            f"{client}/{label}/" + name.format(slide=slide, number=number + 9 * (label == "tumour"))
            for client in ("akoya", "zeiss")
            for label in ("normal", "tumour")
            for slide in range(slides)
            for number in range(4)
        ),
    )


def test_folders_of_patches_are_divided_by_slide(tmp_path):
    root = scanners(tmp_path)
    put(root, "notes.txt", ".hidden/normal/1.png")
    table = wilds.read(root)
    assert list(table.columns) == ["path", "label", "client", "split", "subject"]
    counts = table.groupby(["client", "label", "split"]).size().unstack()
    assert len(counts) == 4 and (counts["train"] == 24).all() and (counts["test"] == 16).all()
    assert table.subject.nunique() == 20 and table.subject[0] == "akoya/s0"
    manifests.check(table, labels=["normal", "tumour"])
    assert (wilds.read(root, train=0.8).split == "train").mean() == 0.8
    assert not table.split.equals(wilds.read(root, seed=1).split)


def test_patches_of_no_known_slide_are_divided_one_by_one(tmp_path):
    table = wilds.read_folders(scanners(tmp_path, name="patch{slide}-{number}.png"), train=0.7)
    counts = table.groupby(["client", "label", "split"]).size().unstack()
    assert (counts["train"] == 28).all()
    assert table.subject.is_unique


def test_some_patches_of_slides_and_some_alone(tmp_path):
    root = scanners(tmp_path)
    put(root, *(f"akoya/{label}/{number}.png" for label in ("normal", "tumour") for number in range(10)))
    table = wilds.read(root)
    manifests.check(table)
    assert table.subject.nunique() == 20 + 20


def test_a_split_that_is_there_stays(tmp_path):
    names = [f"a/{split}/{label}/s_{n}_0.png" for split in ("train", "test") for label in "xy" for n in range(3)]
    table = wilds.read(put(tmp_path, *names))
    assert list(table.columns) == ["path", "label", "client", "split"]
    assert set(table.client) == {"a"}
    assert all(f"/{row.split}/{row.label}/" in row.path for row in table.itertuples())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "no folders in it; lay the patches out as <client>/<class>"),
        (["1.png"], "no folders in it"),
        (["normal/1.png", "tumour/2.png"], r"normal: patches without a class, such as 1\.png"),
        (["train/normal/1.png", "test/normal/1.png"], "holds a folder called train or val or test and no clients"),
        (["a/normal/1.png", "b/notes.txt"], "b: no images"),
        (["a/x/1.png", "a/y/1.png", "b/train/x/1.png", "b/train/y/1.png"], "some patches have a split and some do not"),
        (["a/x/1.png", "a/y/1.png", "b/x/1.png"], "b: a single patch"),
        (["a/x/1.png", "a/y/1.png", "b/x/1.png", "b/x/2.png"], "b: all of its 2 patches are x"),
        (["b/train/x/1.png", "b/test/x/2.png"], "b: all of its 2 patches are x"),
        (["a/x/s_1_1.png", "a/y/s_2_1.png"], "a, 2 patches of 1 subjects: 1 groups for 2 parts"),
        (["a/x/s_1_1.png", "a/y/t_2_1.png"], "a, 2 patches of 2 subjects: shares .*0.6, 0.4.* is left empty"),
        (
            [f"a/{'xy'[n % 5 > 0]}/{n % 5}_{n}_0.png" for n in range(25)],
            "a, 25 patches of 5 subjects, which are never divided: no x to (train|test) with",
        ),
    ],
)
def test_folders_with_another_layout(tmp_path, names, expected):
    put(tmp_path, *names)
    with pytest.raises(UserError, match=expected) as error:
        wilds.read(tmp_path)
    assert "\n" not in str(error.value)


def test_distribution_counts_every_patch_once(tmp_path):
    table = wilds.read(lay_out(tmp_path, rows()))
    found = wilds.distribution(table)
    assert list(found.columns) == ["client", "split", "normal", "tumour", "patches", "subjects"]
    assert [tuple(row) for row in found.to_numpy()] == [
        ("centre0", "train", 80, 80, 160, 8),
        ("centre0", "test", 20, 20, 40, 2),
        ("centre1", "train", 80, 80, 160, 8),
        ("centre1", "test", 20, 20, 40, 2),
    ]
    assert "subjects" not in wilds.distribution(table.drop(columns="subject")).columns
