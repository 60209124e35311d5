import os
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pytest

from tffapps.data import manifest as manifests
from tffapps.data import micrographs
from tffapps.errors import UserError

REAL = Path(os.environ.get("TFFAPPS_REAL_DATA") or "/nowhere") / "micrographs"


def pair(seed, height=24, width=24, light=False):
    """A random image, and a label with one line across."""
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    label = np.full((height, width), 255, np.uint8)
    label[:, width // 2] = 0
    label[seed % height] = 0
    return image, 255 - label if light else label


def lay_out(root, client="iron", names=("a_1", "a_2", "b_1", "b_2", "c_1"), **options):
    for kind in ("images", "labels"):
        (root / client / kind).mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        image, label = pair(number, **options)
        cv2.imwrite(str(root / client / "images" / f"{name}.bmp"), image)
        cv2.imwrite(str(root / client / "labels" / f"{name}.png"), label)
    return root


def pixels(path):
    return cv2.imread(path, cv2.IMREAD_UNCHANGED)


def subjects(counts, client="iron"):
    """A table of tiles: so many of each micrograph."""
    names = [f"{client}/{number}" for number, count in enumerate(counts) for _ in range(count)]
    paths = [f"/{client}/{row}.png" for row in range(len(names))]
    return pd.DataFrame({"path": paths, "client": client, "split": "train", "subject": names})


def test_pairs_become_a_table(tmp_path):
    lay_out(tmp_path, "steel", names=("s2", "s10", "s1"))
    table = micrographs.read(lay_out(tmp_path))
    assert list(table.client) == ["iron"] * 5 + ["steel"] * 3
    assert list(table.name) == ["a_1", "a_2", "b_1", "b_2", "c_1", "s1", "s2", "s10"]
    assert list(table.subject) == [
        "iron/a",
        "iron/a",
        "iron/b",
        "iron/b",
        "iron/c",
        "steel/s1",
        "steel/s2",
        "steel/s10",
    ]
    assert table.path[1] == str(tmp_path / "iron/images/a_2.bmp")
    assert table["mask"][1] == str(tmp_path / "iron/labels/a_2.png")


@pytest.mark.parametrize(
    ("stems", "expected"),
    [
        (["RG16_1_1", "RG16_2_4", "RG2_1_1"], ["RG16", "RG16", "RG2"]),
        (["12-256-512-0-0", "12-0-0-0-128", "13-0-0-0-0"], ["12", "12", "13"]),
        (["000", "001"], ["000", "001"]),
        (["image_001", "image_002"], ["image_001", "image_002"]),
        (["iron_7_1_2", "iron_7_1_1", "iron_8_1_1"], ["iron_7", "iron_7", "iron_8"]),
        (["part-A_001", "part-A_002", "part-B_001"], ["part-A", "part-A", "part-B"]),
        (["only_1_1"], ["only_1_1"]),
        (["a_1x", "a_2x"], ["a_1x", "a_2x"]),
    ],
)
def test_file_names_tell_the_micrograph(stems, expected):
    assert micrographs.micrograph_names(stems) == expected


def test_tiles_are_the_pixels_of_the_image_and_masks_are_normalised(tmp_path):
    lay_out(tmp_path, "dark", height=25, width=39)
    lay_out(tmp_path, "light", height=12, width=12, light=True)
    table, codings = micrographs.tiles(micrographs.read(tmp_path), tmp_path / "tiles", tile=12, progress=False)
    assert [(name, coding.boundary) for name, coding in codings.items()] == [("dark", "dark"), ("light", "light")]
    assert list(table.columns) == [*manifests.COLUMNS, "mask", "subject", "name"]
    dark = table[table.client == "dark"]
    assert len(dark) == 5 * 2 * 3 and list(dark.name[:6]) == [f"a_1+{y}+{x}" for y in range(2) for x in range(3)]
    assert list(table.name[table.client == "light"]) == ["a_1", "a_2", "b_1", "b_2", "c_1"]
    image, label = pair(0, 25, 39)
    for row, (y, x) in zip(dark[:6].itertuples(), [(y, x) for y in (0, 12) for x in (0, 12, 24)]):
        np.testing.assert_array_equal(pixels(row.path), image[y : y + 12, x : x + 12])
        np.testing.assert_array_equal(pixels(row.mask), 255 - label[y : y + 12, x : x + 12])
    light = table[table.client == "light"].iloc[0]
    np.testing.assert_array_equal(pixels(light["mask"]), pair(0, 12, 12, light=True)[1])
    manifests.check(table)


def test_tiles_are_written_once(tmp_path):
    root, folder = lay_out(tmp_path / "data"), tmp_path / "tiles"

    def make(**options):
        table, _ = micrographs.tiles(micrographs.read(root), folder, progress=False, **{"tile": 12, **options})
        return table, {file: file.stat().st_mtime_ns for file in folder.rglob("*.png")}

    first, files = make()
    again, same = make()
    pd.testing.assert_frame_equal(first, again)
    assert files == same and len(files) == 2 * len(first) == 2 * 4 * 5
    list(files)[3].unlink()
    assert make()[1].keys() == files.keys()
    other, more = make(tile=24)
    assert len(more) == 2 * (20 + 5) and not set(other.path) & set(first.path)
    label = root / "iron/labels/a_1.png"
    cv2.imwrite(str(label), np.roll(pixels(str(label)), 1, axis=1))
    changed, _ = make()
    assert not set(changed["mask"][:4]) & set(first["mask"][:4]) and list(changed.path[4:]) == list(first.path[4:])


def test_whole_images_brought_to_one_size(tmp_path):
    """--tile 0 --size 8: clients of different magnification, lines that get thin do not break."""
    lay_out(tmp_path, "steel", height=40, width=96, light=True)
    table, _ = micrographs.tiles(micrographs.read(lay_out(tmp_path)), tmp_path / "t", tile=0, size=8)
    assert table.groupby("client").size().to_dict() == {"iron": 5, "steel": 10}  # two squares of 40 each
    for path, mask in zip(table.path, table["mask"]):
        assert pixels(path).shape == (8, 8, 3) and pixels(mask).shape == (8, 8)
    first = pixels(table["mask"].iloc[0])  # one column and one row of 24, a third of a pixel wide each
    assert first[:, 4].tolist() == [255] * 8 and first[0].tolist() == [255] * 8
    assert (first == 255).sum() == 15 and set(np.unique(first)) == {0, 255}


def test_some_of_the_tiles(tmp_path):
    table = pd.concat([subjects([4] * 10), subjects([2] * 3, "steel")], ignore_index=True)
    few = micrographs.thinned(table, 8, seed=1)
    assert few.groupby("client").size().to_dict() == {"iron": 8, "steel": 6}
    assert few.equals(micrographs.thinned(table, 8, seed=1)) and not few.equals(micrographs.thinned(table, 8, seed=2))
    assert few.subject.nunique() > 5 and micrographs.thinned(table, 0).equals(table)


def listed(root, **columns):
    """The files of a layout as a manifest."""
    table = micrographs.read(root)[["path", "mask", "client"]].assign(label="grains", **columns)
    table.to_csv(root / "list.csv", index=False)
    return root / "list.csv"


def test_a_manifest_will_do(tmp_path):
    root, tiles = tmp_path / "data", tmp_path / "tiles"
    folder, file = micrographs.read(lay_out(root)), listed(root)
    found = micrographs.read(file)
    for column in folder.columns:
        assert found[column].tolist() == folder[column].tolist(), column
    assert set(micrographs.load(file, tiles, tile=24)[0].split) == {"train", "val", "test"}
    splits = ["test", "test", "train", "train", "val"]
    given = micrographs.load(listed(root, split=splits), tiles, tile=24)[0]
    assert given.split.tolist() == splits


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"mask": ""}, "rows without a mask"),
        ({"split": ["train"] * 4 + ["test"]}, "no rows of split val"),
        ({"split": ["train", "test", "val", "val", "test"]}, "a subject that is in more than one split"),
    ],
)
def test_a_manifest_that_will_not_do(tmp_path, columns, complaint):
    with pytest.raises(UserError, match=complaint):
        micrographs.read(listed(lay_out(tmp_path), **columns))


def test_grey_images_stay_grey(tmp_path):
    lay_out(tmp_path, names=("a",))
    cv2.imwrite(str(tmp_path / "iron/images/a.bmp"), pair(0)[0][..., 0])
    table, _ = micrographs.tiles(micrographs.read(tmp_path), tmp_path / "tiles", tile=24, progress=False)
    assert pixels(table.path[0]).shape == (24, 24)


@pytest.mark.parametrize("each", [1, 4])
def test_the_paper_s_split_and_folds(each):
    table = pd.concat([subjects([each] * (892 // each), client) for client in ("iron", "steel")], ignore_index=True)
    divided = micrographs.divide(table)
    for tables in ([divided], micrographs.folds(divided)):
        for one in tables:
            counts = one.groupby(["client", "split"]).size()
            for client in ("iron", "steel"):
                assert counts[client].to_dict() == {"train": 560, "val": 140, "test": 192}
            assert one.groupby("subject").split.nunique().max() == 1


def test_folds_validate_with_every_micrograph_once_and_test_with_none():
    table = micrographs.divide(subjects([3, 5, 2, 4, 4, 2, 3, 3, 2, 5, 4, 4]), seed=1)
    given = table.copy()
    tables = micrographs.folds(table, 3, seed=2)
    pd.testing.assert_frame_equal(table, given)
    ours = table.split != "test"
    validated = sum((one.split == "val").astype(int) for one in tables)
    assert (validated[ours] == 1).all() and (validated[~ours] == 0).all()
    for one in tables:
        assert (one.split[~ours] == "test").all() and one.groupby("subject").split.nunique().max() == 1
        assert set(one.split) == {"train", "val", "test"}
    pd.testing.assert_frame_equal(tables[1], micrographs.folds(table, 3, seed=2)[1])
    other = micrographs.folds(table, 3, seed=3)
    assert any(not one.split.equals(two.split) for one, two in zip(tables, other))


def test_all_in_one(tmp_path):
    table, codings = micrographs.load(lay_out(tmp_path / "d"), tmp_path / "t", tile=24, progress=False)
    assert set(table.split) == {"train", "val", "test"} and list(codings) == ["iron"]
    assert table.groupby("subject").split.nunique().max() == 1
    manifests.check(table)


def test_too_few_micrographs(tmp_path):
    root = lay_out(tmp_path, names=("a_1", "a_2", "b_1"))
    with pytest.raises(UserError, match=r"iron: 3 tiles of 2 micrographs \(a, b\) are too few to train, validate and"):
        micrographs.load(root, tmp_path / "tiles", tile=24, progress=False)
    table = micrographs.divide(subjects([1, 1, 1, 1]))
    with pytest.raises(UserError, match=r"are too few for 4 folds; lower --folds"):
        micrographs.folds(table, 4)
    with pytest.raises(UserError, match="--folds 1: must be 2 or more"):
        micrographs.folds(table, 1)


def remove(name):
    return lambda root: (root / "iron" / name).unlink()


def place(name, contents=b""):
    return lambda root: (root / "iron" / name).write_bytes(contents)


def resize(name, height, width):
    def spoil(root):
        file = str(root / "iron" / name)
        cv2.imwrite(file, cv2.resize(pixels(file), (width, height), interpolation=cv2.INTER_NEAREST))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (remove("labels/a_2.png"), r"1 of 5 images without label of the same name, such as a_2\.bmp; add the label"),
        (remove("images/a_2.bmp"), r"1 of 5 labels without image of the same name, such as a_2\.png"),
        (place("images/a_2.png"), r"images: a_2\.bmp and a_2\.png have the same name but for its end; keep one"),
        (resize("images/b_1.bmp", 24, 25), r"b_1\.bmp: 25 × 24 pixels, but its label .*b_1\.png has 24 × 24"),
        (resize("labels/b_1.png", 24, 16), r"b_1\.bmp: 16 × 24 pixels, smaller than a tile; choose --tile 16 or less"),
        (place("images/c_1.bmp", b"BM no image"), r"c_1\.bmp: not an image.*save the image again or remove it and"),
        (place("labels/c_1.png", b"no image"), r"c_1\.png: not an image.*save the label again"),
        (
            lambda root: os.rename(root / "iron/labels", root / "iron/masks"),
            r"labels: no such folder; lay the files out",
        ),
        (lambda root: os.mkdir(root / "empty"), r"empty.images: no such folder"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, spoil, expected):
    root = lay_out(tmp_path / "data")
    spoil(root)
    with pytest.raises(UserError, match=expected):
        micrographs.load(root, tmp_path / "tiles", tile=20, progress=False)


def test_wrong_roots(tmp_path):
    with pytest.raises(UserError, match="no such folder; lay the files out as <client>/images"):
        micrographs.read(tmp_path / "none")
    with pytest.raises(UserError, match="no folders of clients"):
        micrographs.read(tmp_path)
    with pytest.raises(UserError, match="images and labels without a client; give the folder above"):
        micrographs.read(lay_out(tmp_path) / "iron")
    for kind in ("images", "labels"):
        os.makedirs(tmp_path / "steel" / kind)
    with pytest.raises(UserError, match=r"images: no images \(\.png, "):
        micrographs.read(tmp_path)
    with pytest.raises(UserError, match="--tile -1: must be 0 or more"):
        micrographs.tiles(pd.DataFrame(), tmp_path, tile=-1)


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason="TFFAPPS_REAL_DATA names no folder with micrographs/")
def test_real_micrographs(tmp_path):
    table = micrographs.read(REAL)
    assert table.groupby("client").subject.nunique().to_dict() == {"steel316L": 12, "texture": 7}
    some = table.groupby("subject").head(2)
    found, codings = micrographs.tiles(some, tmp_path / "tiles", tile=128, progress=False)
    assert {coding.boundary for coding in codings.values()} == {"dark"}
    assert all(0.1 < coding.share < 0.3 for coding in codings.values())
    assert found.client.value_counts().to_dict() == {"steel316L": 24 * 9, "texture": 14}
    manifests.check(micrographs.divide(found))
