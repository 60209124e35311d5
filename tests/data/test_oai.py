import pandas as pd
import pytest

from tffapps.data import manifest as manifests
from tffapps.data import oai
from tffapps.errors import UserError

SPLITTERS = {"csfl": oai.csfl_split, "gold": oai.gold_split, "fssfl": oai.fssfl_split}


@pytest.fixture
def put(tmp_path):
    def put(*names, contents=None):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(name.encode() if contents is None else contents)
        return tmp_path

    return put


@pytest.fixture(scope="module")
def pool():
    """700 healthy, 200 moderate and 60 severe knees: pairs alike, then 30 unlike pairs and 60 single knees."""
    labels = ["healthy"] * 700 + ["moderate"] * 200 + ["severe"] * 60
    subjects = [str(row // 2) if row < 840 else str(row if row < 900 or row >= 930 else row - 60) for row in range(960)]
    rows = [
        (f"/x/{row}.png", label, "all", "train", subject) for row, (label, subject) in enumerate(zip(labels, subjects))
    ]
    return pd.DataFrame(rows, columns=["path", "label", "client", "split", "subject"])


def small(healthy, moderate, severe):
    labels = ["healthy"] * healthy + ["moderate"] * moderate + ["severe"] * severe
    return pd.DataFrame(
        {
            "path": [f"/x/{row}.png" for row in range(len(labels))],
            "label": labels,
            "client": "all",
            "split": "train",
            "subject": [str(row) for row in range(len(labels))],
        }
    )


def test_the_pool_is_all_splits_but_auto_test_without_grades_1_and_2(put):
    root = put(
        "train/0/9000002R.png",
        "train/0/9000002L.png",
        "train/1/9000003L.png",
        "train/2/9000004L.png",
        "val/3/9000001L.png",
        "test/4/knee.PNG",
        "test/4/a12b3.jpeg",
        "test/4/.hidden.png",
        "test/4/notes.txt",
        "auto_test/4/9000009L.png",
    )
    table = oai.read_oai(root)
    assert list(table.columns) == ["path", "label", "client", "split", "subject"]
    assert [tuple(row) for row in table.drop(columns="path").to_numpy()] == [
        ("healthy", "all", "train", "9000002"),
        ("healthy", "all", "train", "9000002"),
        ("moderate", "all", "val", "9000001"),
        ("severe", "all", "test", "123"),
        ("severe", "all", "test", "knee"),
    ]
    assert table.path[0] == str(root / "train/0/9000002L.png")


def test_a_grade_may_be_missing_in_one_split(put):
    root = put("train/0/1L.png", "train/3/2L.png", "val/4/3L.png", "test/0/4L.png")
    assert list(oai.read_oai(root).label) == ["healthy", "healthy", "moderate", "severe"]


def test_copies_count_once_and_are_reported(put):
    root = put("train/0/1L.png", "train/3/2L.png", "train/4/3L.png")
    put("val/0/1L.png", "test/0/1L.png", contents=b"train/0/1L.png")  # the same image under the same name
    put("val/3/2L.png", contents=b"another image")
    notes = []
    table = oai.read_oai(root, notes)
    assert [path[len(str(root)) + 1 :] for path in table.path] == [
        "train/0/1L.png",
        "train/3/2L.png",
        "val/3/2L.png",
        "train/4/3L.png",
    ]
    assert list(table.index) == [0, 1, 2, 3]
    (note,) = notes
    assert f"{root}: 2 copies" in note


def test_same_name_and_size_but_other_content_is_another_image(put):
    root = put("train/0/1L.png", "train/3/2L.png", "train/4/3L.png")
    put("test/0/1L.png", contents=b"TRAIN/0/1L.png")
    notes = []
    assert len(oai.read_oai(root, notes)) == 4 and not notes


def test_one_image_with_two_grades_is_refused(put):
    root = put("train/0/1L.png", "train/3/2L.png", "train/4/3L.png")
    put("test/4/1L.png", contents=b"train/0/1L.png")
    with pytest.raises(UserError, match="another grade") as error:
        oai.read_oai(root)
    assert str(root / "test/4/1L.png") in str(error.value) and str(root / "train/0/1L.png") in str(error.value)


@pytest.mark.parametrize(
    ("names", "folder", "problem"),
    [
        (["images/0/1.png", "auto_test/0/1.png"], "", "none of the folders train, val, test"),
        (["train/a/1.png", "val/1.png"], "train", "none of the grade folders"),
        (["train/0/1.png", "train/3/2.png"], "train/4", "no image of grade 4"),
        (["train/0/1.png", "train/4/2.png", "val/3/notes.txt"], "val/3", "no image of grade 3"),
        (["train/3/1.png", "train/4/2.png", "auto_test/0/3.png"], "train/0", "no image of grade 0"),
    ],
)
def test_a_folder_with_another_layout(put, names, folder, problem):
    root = put(*names)
    with pytest.raises(UserError, match=problem) as error:
        oai.read_oai(root)
    assert str(root / folder) in str(error.value) and "\n" not in str(error.value)
    assert "train/0" in str(error.value)  # the way out


def test_no_folder_at_all(put):
    root = put("file.zip")
    with pytest.raises(UserError, match=r"file\.zip: not a folder"):
        oai.read_oai(root / "file.zip")
    with pytest.raises(UserError, match="nowhere: no such folder"):
        oai.read_oai(root / "nowhere")


@pytest.mark.parametrize("name", SPLITTERS)
@pytest.mark.parametrize("seed", range(4))
def test_a_subject_is_in_one_place_only(name, seed, pool):
    table = SPLITTERS[name](pool, seed)
    places = [column for column in ("client", "split", "labelled") if column in table.columns]
    assert (table.groupby("subject")[places].nunique() == 1).all(axis=None)
    assert list(table.path) == list(pool.path) and list(table.label) == list(pool.label)
    assert set(table.client) == {"client1", "client2", "server"}


def shares(table, of=None, *, by):
    """How large a share of each class (rows) every part (columns) has."""
    part = table if of is None else table[of]
    counts = part.groupby(["label", by]).size().unstack(fill_value=0)
    return counts.div(counts.sum(axis=1), axis=0)


@pytest.mark.parametrize("seed", range(4))
def test_csfl_shares(pool, seed):
    table = oai.csfl_split(pool, seed)
    near(shares(table, by="client"), {"server": 0.1, "client1": 0.45, "client2": 0.45})
    assert set(table.split[table.client == "server"]) == {"test"}
    for client in oai.CLIENTS:
        near(shares(table, table.client == client, by="split"), {"train": 0.8, "val": 0.1, "test": 0.1})


@pytest.mark.parametrize("seed", range(4))
def test_gold_shares(pool, seed):
    table = oai.gold_split(pool, seed)
    near(shares(table, by="client"), {"server": 1 / 3, "client1": 1 / 3, "client2": 1 / 3})
    near(shares(table, table.client == "server", by="split"), {"train": 0.8, "val": 0.1, "test": 0.1})
    assert set(table.split[table.client != "server"]) == {"train"}
    assert "labelled" not in table.columns


@pytest.mark.parametrize("seed", range(4))
def test_fssfl_shares(pool, seed):
    table, gold = oai.fssfl_split(pool, seed), oai.gold_split(pool, seed)
    assert list(table.client) == list(gold.client)
    server = table.client == "server"
    assert list(table.split[server]) == list(gold.split[server])
    assert table.labelled.dtype == bool
    assert table.labelled[server | (table.split == "test")].all()
    for client in oai.CLIENTS:
        own = table.client == client
        near(shares(table, own, by="split"), {"train": 0.8, "test": 0.2})
        near(shares(table, own & (table.split == "train"), by="labelled"), {True: 0.2, False: 0.8})


def near(found, wanted):
    assert set(found.columns) == set(wanted)
    for name, share in wanted.items():
        # A severe knee is 5 % of a third of them: within one or two images.
        assert (found[name] - share).abs().max() < 0.08, found


@pytest.mark.parametrize("name", SPLITTERS)
def test_the_seed_decides_and_the_table_given_is_left_alone(name, pool):
    before = pool.copy()
    first = SPLITTERS[name](pool, 3)
    pd.testing.assert_frame_equal(pool, before)
    pd.testing.assert_frame_equal(first, SPLITTERS[name](pool, 3))
    assert not first.equals(SPLITTERS[name](pool, 4))


def test_rows_left_out_before_do_not_matter(pool):
    table = oai.fssfl_split(pool.drop(index=range(0, 100, 3)), 0)
    assert list(table.index) == list(range(960 - 34))
    assert not table.isna().any(axis=None)


def test_the_splits_are_manifests(tmp_path):
    table = small(60, 30, 20)
    table["path"] = [str(tmp_path / f"{row}.png") for row in range(len(table))]
    for path in table.path:
        open(path, "w").close()
    for split in (oai.gold_split, oai.fssfl_split):
        manifests.check(split(table, 0), labels=list(oai.LABELS.values()))


def test_distribution_counts_every_image_once():
    rows = [
        ("server", "test", True, "severe"),
        ("client2", "train", False, "healthy"),
        ("client2", "train", True, "healthy"),
        ("client2", "train", False, "healthy"),
        ("client1", "test", True, "moderate"),
        ("client1", "train", True, "severe"),
    ]
    table = pd.DataFrame(rows, columns=["client", "split", "labelled", "label"])
    found = oai.distribution(table)
    assert list(found.columns) == ["client", "split", "labelled", "healthy", "moderate", "severe", "images"]
    assert found.to_numpy().tolist() == [
        ["client1", "train", True, 0, 0, 1, 1],
        ["client1", "test", True, 0, 1, 0, 1],
        ["client2", "train", True, 1, 0, 0, 1],
        ["client2", "train", False, 2, 0, 0, 2],
        ["server", "test", True, 0, 0, 1, 1],
    ]
    without = oai.distribution(table.drop(columns="labelled"))
    assert without.to_numpy().tolist()[2] == ["client2", "train", 3, 0, 0, 3]


@pytest.mark.parametrize("name", SPLITTERS)
def test_too_few_images(name):
    with pytest.raises(UserError, match="images of 3 subjects") as error:
        SPLITTERS[name](small(1, 1, 1), 0)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", SPLITTERS)
def test_too_few_subjects(name):
    table = small(40, 20, 10)
    table["subject"] = [str(row % 2) for row in range(70)]
    with pytest.raises(UserError, match="70 images of 2 subjects"):
        SPLITTERS[name](table, 0)


@pytest.mark.parametrize("name", ["csfl", "fssfl"])
def test_a_class_too_rare_for_every_learner(name):
    with pytest.raises(UserError, match=r"client[12]: no severe among .*1 images of 1 subjects"):
        SPLITTERS[name](small(60, 30, 1), 0)
