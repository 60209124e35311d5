import json

import pandas as pd
import pytest

from tests.data.conftest import put
from tffapps.data import chaoyang
from tffapps.data import manifest as manifests
from tffapps.errors import UserError

COUNTS = (110, 84, 66, 140)  # of the four classes to train with, as unlike as the real ones


def entries(split, counts, **more):
    """`counts` are in the order of CLASSES."""
    codes = [chaoyang.CODES.index(label) for label in chaoyang.CLASSES]
    labels = [code for code, count in zip(codes, counts) for _ in range(count)]
    return [{"name": f"{split}/{number}.JPG", "label": label, **more} for number, label in enumerate(labels)]


def lay_out(root, train, test, files=True):
    for split, rows in (("train", train), ("test", test)):
        (root / split).mkdir(parents=True, exist_ok=True)
        (root / f"{split}.json").write_text(json.dumps(rows))
        for row in rows if files else []:
            (root / row["name"]).touch()
    return root


@pytest.fixture
def root(tmp_path):
    return lay_out(tmp_path / "c", entries("train", COUNTS), entries("test", (4, 3, 2, 5)))


@pytest.fixture
def table(root):
    return chaoyang.read(root)


def test_the_entries_become_a_manifest(tmp_path):
    labels = (3, 0, 2, 1)
    train = [{"name": f"train/{number}.JPG", "label": label} for number, label in enumerate(labels)]
    root = lay_out(tmp_path, train, entries("test", (1, 1, 1, 1)))
    table = chaoyang.read(root)
    assert list(table.columns) == list(manifests.COLUMNS)
    assert table.path[0] == str(root / "train/0.JPG")
    assert list(table.label[:4]) == ["adenoma", "normal", "adenocarcinoma", "serrated"]  # as published
    assert list(table.label[4:]) == list(chaoyang.CLASSES)
    assert list(table.split) == ["train"] * 4 + ["test"] * 4
    manifests.check(table, labels=chaoyang.CLASSES)


def three(rows):
    """Annotators who never agree, so that the label says who was chosen; A is right."""
    return [
        {
            "name": row["name"],
            "label_A": row["label"],
            **{f"label_{a}": (row["label"] + n) % 4 for n, a in ((1, "B"), (2, "C"))},
        }
        for row in rows
    ]


def test_one_of_three_annotators_is_drawn_for_each_image(tmp_path):
    train, test = entries("train", (300, 300, 300, 300)), entries("test", (50, 50, 50, 50))
    root = lay_out(tmp_path, three(train), three(test))
    table = chaoyang.read(root, seed=5)
    right = [row["label"] for row in train + test]
    found = [chaoyang.CODES.index(label) for label in table.label]
    chosen = pd.Series([(label - true) % 4 for label, true in zip(found, right)])
    assert set(chosen) == {0, 1, 2}
    assert chosen.value_counts(normalize=True).between(0.29, 0.38).all()
    pd.testing.assert_frame_equal(table, chaoyang.read(root, seed=5))
    other = chaoyang.read(root, seed=6)
    assert other.path.equals(table.path) and (other.label != table.label).mean() > 0.4


def test_a_label_that_was_agreed_on_is_taken(tmp_path):
    more = {name: 3 for name in chaoyang.ANNOTATORS}
    root = lay_out(tmp_path, entries("train", (1, 1, 1, 1), **more), entries("test", (1, 1, 1, 1)))
    assert list(chaoyang.read(root).label) == list(chaoyang.CLASSES) * 2


GOOD = entries("train", (2, 2, 2, 2))


def changed(**change):
    """The third of eight entries is other than it should be; None removes a key."""

    def make(root):
        row = {key: value for key, value in {**GOOD[2], **change}.items() if value is not None}
        lay_out(root, [*GOOD[:2], row, *GOOD[3:]], [], files=False)

    return make


def text(contents):
    return lambda root: (root / "train.json").write_bytes(contents)


def without_files(root):
    lay_out(root, GOOD, [])
    for number in (0, 2, 5, 6):
        (root / f"train/{number}.JPG").unlink()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda root: None, r"train\.json: no such file; give the folder that holds train\.json, test\.json and"),
        (text(b"[{'name'"), r"train\.json: not JSON \(.*\); download it again"),
        (text(b"\xff\xfe\x00"), r"train\.json: not JSON"),
        (text(b"{}"), r"train\.json: no list of images; it must hold \[\{"),
        (text(b"[]"), r"train\.json: no list of images"),
        (text(b'["train/1.JPG"]'), r"image 1 of 1 is 'train/1\.JPG'; write it as"),
        (changed(label=None), r"train\.json: image 3 of 8 has no label \(found: name\); give it a name and either"),
        (changed(name=None), r"image 3 of 8 has no name \(found: label\)"),
        (changed(label=None, label_B=1), r"image 3 of 8 has no label_A and no label_C \(found: name, label_B\)"),
        (changed(name=7), "image 3 of 8 has the name 7"),
        (changed(label=4), r"image 3 of 8 \(train/2\.JPG\) has label 4; it must be one of 0 normal, 1 serrated, 2 ad"),
        (changed(label=-1), "has label -1"),
        (changed(label="1"), "has label '1'"),
        (changed(label=True), "has label True"),
        (changed(label=None, label_A=0, label_B=9, label_C=0), r"\(train/2\.JPG\) has label_B 9"),
        (changed(name="train/1.JPG"), r"1 images named twice, such as train/1\.JPG; keep each once"),
        (
            without_files,
            r"train\.json: 4 of 8 images have no file, such as train/0\.JPG, train/2\.JPG, train/5\.JPG; unpack",
        ),
        (lambda root: lay_out(root, GOOD, []), r"test\.json: no list of images"),
        (lambda root: lay_out(root, GOOD, GOOD), r"8 images both to train and to test with, such as .*train/0\.JPG"),
        (lambda root: lay_out(root, GOOD, entries("test", (1, 0, 1, 0))), "no serrated and no adenocarcinoma to test"),
    ],
)
def test_bad_data_is_said_in_one_line(tmp_path, make, expected):
    make(tmp_path)
    with pytest.raises(UserError, match=expected) as error:
        chaoyang.read(tmp_path)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def test_no_folder(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder; give the folder"):
        chaoyang.read(tmp_path / "nowhere")
    put(tmp_path, "file")
    with pytest.raises(UserError, match="file: not a folder; give the folder"):
        chaoyang.read(tmp_path / "file")


@pytest.mark.parametrize("rare", [5, 10])
def test_every_client_has_its_class_and_a_few_of_the_others(table, rare):
    given = table.copy()
    divided = chaoyang.imbalanced(table, rare)
    pd.testing.assert_frame_equal(table, given)  # the given one stays as it is
    assert divided.path.equals(table.path) and divided.path.is_unique
    train = divided[divided.split == "train"]
    counts = pd.crosstab(train.client, train.label).loc[list(chaoyang.CLIENTS), list(chaoyang.CLASSES)].to_numpy()
    for client in range(4):
        for label in range(4):
            assert counts[client, label] == (COUNTS[label] - 3 * rare if client == label else rare)
    assert counts.sum(axis=0).tolist() == list(COUNTS)  # every image at one client
    assert set(divided.client[divided.split == "test"]) == {chaoyang.SERVER}


def test_twenty_rare_images_need_more_than_eighty(tmp_path, table):
    with pytest.raises(
        UserError, match=r"adenoma: 66 training images, too few to give 20 to each of 3 clients and keep"
    ):
        chaoyang.imbalanced(table, 20)
    for count in (80, 81):
        root = lay_out(tmp_path / str(count), entries("train", (90, 90, count, 90)), entries("test", (1, 1, 1, 1)))
        if count == 80:
            with pytest.raises(UserError, match=r"adenoma: 80 training images.*more at client3; choose a smaller"):
                chaoyang.imbalanced(chaoyang.read(root), 20)
        else:
            rich = chaoyang.imbalanced(chaoyang.read(root), 20).query("client == 'client3' and split == 'train'")
            assert rich.label.value_counts().to_dict() == {
                "adenoma": 21,
                "normal": 20,
                "serrated": 20,
                "adenocarcinoma": 20,
            }


def test_the_seed_decides_who_gets_which_images(table):
    first = chaoyang.imbalanced(table, 5, seed=1)
    pd.testing.assert_frame_equal(first, chaoyang.imbalanced(table, 5, seed=1))
    assert not first.client.equals(chaoyang.imbalanced(table, 5, seed=2).client)


def test_more_rare_images_are_those_of_before_and_others(table):
    few, more = (chaoyang.imbalanced(table, rare, seed=3) for rare in (5, 10))
    for client, label in zip(chaoyang.CLIENTS, chaoyang.CLASSES):
        rare = [set(side.path[(side.client == client) & (side.label != label)]) for side in (few, more)]
        assert rare[0] < rare[1] and len(rare[0]) == 15 and len(rare[1]) == 30


def test_no_rare_images_are_refused(table):
    with pytest.raises(UserError, match="rare 0: every client needs at least 1"):
        chaoyang.imbalanced(table, 0)


def test_distribution_counts_every_image_once(table):
    found = chaoyang.distribution(chaoyang.imbalanced(table, 5))
    assert list(found.columns) == ["client", "split", *chaoyang.CLASSES, "images"]
    assert [tuple(row) for row in found.to_numpy()] == [
        ("client1", "train", 95, 5, 5, 5, 110),
        ("client2", "train", 5, 69, 5, 5, 84),
        ("client3", "train", 5, 5, 51, 5, 66),
        ("client4", "train", 5, 5, 5, 125, 140),
        ("server", "test", 4, 3, 2, 5, 14),
    ]
    whole = chaoyang.distribution(table)
    assert list(whole.split) == ["train", "test"] and list(whole.images) == [400, 14]


def test_folders_of_classes_give_the_same_table(tmp_path):
    names = [f"{split}/{label}/{n}.png" for split in ("train", "test") for label in chaoyang.CLASSES for n in (2, 10)]
    table = chaoyang.from_class_folders(put(tmp_path, *names, "readme.txt"))
    assert list(table.columns) == list(manifests.COLUMNS)
    assert list(table.path) == [str(tmp_path / name) for name in names]  # classes in their order, 2 before 10
    assert list(table.label) == [name.split("/")[1] for name in names]
    assert list(table.split) == [name.split("/")[0] for name in names]
    assert list(chaoyang.imbalanced(pd.concat([table[:8]] * 3), 1).client.value_counts().sort_index()) == [6] * 4
    manifests.check(table, labels=chaoyang.CLASSES)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train/polyp/1.png"], r"train/polyp/1\.png is out of place; lay the images out as \{train,test\}/<class>"),
        (["val/normal/1.png"], r"val/normal/1\.png is out of place"),
        (["normal/1.png"], r"normal/1\.png is out of place"),
        (["a/train/normal/1.png"], "out of place"),
        (["train/normal/1.txt"], "no images"),
        ([f"train/{label}/1.png" for label in chaoyang.CLASSES], "no normal and no serrated and no adenoma.* to test"),
    ],
)
def test_folders_with_another_layout(tmp_path, names, expected):
    put(tmp_path, *names)
    with pytest.raises(UserError, match=expected):
        chaoyang.from_class_folders(tmp_path)
