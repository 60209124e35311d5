import pytest

from tffapps.data.folders import from_folders
from tffapps.errors import UserError


@pytest.fixture
def put(tmp_path):
    def put(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(b"x")
        return tmp_path

    return put


def rows(table):
    return [tuple(row) for row in table[["label", "client", "split"]].to_numpy()]


def test_client_split_class(put):
    root = put("b/train/cat/1.png", "a/test/dog/2.JPG", "a/train/cat/10.bmp", "a/train/cat/9.jpeg")
    table = from_folders(root)
    assert list(table.columns) == ["path", "label", "client", "split"]
    assert rows(table) == [
        ("dog", "a", "test"),
        ("cat", "a", "train"),
        ("cat", "a", "train"),
        ("cat", "b", "train"),
    ]
    # Sorted, 9 before 10, whatever order the disk lists them in.
    names = ["a/test/dog/2.JPG", "a/train/cat/9.jpeg", "a/train/cat/10.bmp", "b/train/cat/1.png"]
    assert list(table.path) == [str(root / name) for name in names]


def test_split_class(put):
    assert rows(from_folders(put("train/cat/1.png", "val/cat/1.png"))) == [
        ("cat", "all", "train"),
        ("cat", "all", "val"),
    ]


def test_class_only(put):
    assert rows(from_folders(put("cat/1.png", "dog/1.png"))) == [
        ("cat", "all", "train"),
        ("dog", "all", "train"),
    ]


def test_other_and_hidden_files_are_passed_over(put):
    root = put("cat/1.png", "cat/.2.png", "cat/notes.txt", "readme.md", ".thumbs/x/3.png", "a/b/c/d/e/f.txt")
    assert list(from_folders(root).path) == [str(root / "cat/1.png")]


def test_nothing_found_says_what_was_there(put):
    with pytest.raises(UserError, match=r"no images .*2 files of other types"):
        from_folders(put("a/train/cat/1.txt", "a/train/cat/2.gif"))


def test_no_such_folder(tmp_path):
    with pytest.raises(UserError, match="nowhere: no such folder"):
        from_folders(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "names, word",
    [
        (["a/training/cat/1.png"], "a/training: a split must be called"),
        (["a/train/cat/1.png", "a/Test/cat/1.png"], "a/Test: a split must be called"),
        (["hospital/cat/1.png"], "hospital: a split must be called"),
        (["train/1.png"], "train: images without a class folder"),
        (["1.png"], "0 folders deep"),
        (["a/b/train/cat/1.png"], "4 folders deep"),
        (["cat/1.png", "train/cat/2.png"], "different depths"),
    ],
)
def test_a_wrong_layout_is_named(put, names, word):
    with pytest.raises(UserError, match=word):
        from_folders(put(*names))


def test_links_are_followed_and_circles_end(put, tmp_path):
    root = put("real/cat/1.png")
    (root / "data").mkdir()
    (root / "data" / "cat").symlink_to(root / "real" / "cat")
    (root / "data" / "again").symlink_to(root / "data")
    with pytest.raises(UserError, match="different depths") as error:
        from_folders(root / "data")
    assert str(error.value).count("/again") <= 4  # with two such links a walk to the system's limit takes for ever
    (root / "data" / "again").unlink()
    assert rows(from_folders(root / "data")) == [("cat", "all", "train")]
