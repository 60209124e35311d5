from pathlib import Path

import pandas as pd
import pytest

from tffapps.data import manifest as manifests
from tffapps.errors import UserError


@pytest.fixture
def table(tmp_path):
    """Two clients, two images each; the files exist."""
    rows = []
    for client in ("a", "b"):
        for split in ("train", "test"):
            file = tmp_path / f"{client}-{split}.png"
            file.write_bytes(b"12345")
            rows.append((str(file), "cat", client, split))
    return pd.DataFrame(rows, columns=["path", "label", "client", "split"])


def refused(table, *words, **kwargs):
    with pytest.raises(UserError) as error:
        manifests.check(table, **kwargs)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


def csv(tmp_path, text):
    file = tmp_path / "m.csv"
    file.write_text(text)
    return file


def test_csv_paths_start_at_its_folder_and_columns_have_defaults(tmp_path):
    table = manifests.read_manifest(csv(tmp_path, "path,label\nsub/x.png,007\n/abs/y.png,NA\n"))
    assert list(table.path) == [str(tmp_path / "sub/x.png"), "/abs/y.png"]
    assert list(table.label) == ["007", "NA"]  # text, not numbers and missing values
    assert list(table.client) == ["all", "all"]
    assert list(table.split) == ["train", "train"]


def test_csv_keeps_masks_and_subjects_and_drops_other_columns(tmp_path):
    text = "\ufeffpath,label,client,split,mask,subject,notes\n"
    text += "x.png,1,c,val,m/x.png,s1,hello\ny.png,1,c,val,,s1,\n"
    table = manifests.read_manifest(csv(tmp_path, text))
    assert list(table.columns) == ["path", "label", "client", "split", "mask", "subject"]
    assert list(table["mask"]) == [str(tmp_path / "m/x.png"), ""]


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "empty"),
        ("label,client\ncat,a\n", "path"),
        ("path\nx.png\n", "label"),
        ('path,label\n"x,y\n', "CSV"),
    ],
)
def test_a_bad_csv_is_named(tmp_path, text, word):
    with pytest.raises(UserError, match=word) as error:
        manifests.read_manifest(csv(tmp_path, text))
    assert "m.csv" in str(error.value)


def test_a_csv_that_is_not_text(tmp_path):
    file = tmp_path / "m.csv"
    file.write_bytes(b"path,label\n\xff\xfe\x00,x\n")
    with pytest.raises(UserError, match="UTF-8"):
        manifests.read_manifest(file)


def test_load_takes_a_folder_or_a_csv(tmp_path):
    (tmp_path / "d" / "cat").mkdir(parents=True)
    (tmp_path / "d" / "cat" / "1.png").write_bytes(b"x")
    assert list(manifests.load(tmp_path / "d").label) == ["cat"]
    assert list(manifests.load(csv(tmp_path, "path,label\nd/cat/1.png,dog\n")).label) == ["dog"]


def test_load_names_the_flag(tmp_path):
    with pytest.raises(UserError, match=r"--data .*nowhere"):
        manifests.load(tmp_path / "nowhere")
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(UserError, match=r"--data .*x\.txt"):
        manifests.load(tmp_path / "x.txt")


def test_a_good_manifest_passes(table):
    manifests.check(table)
    manifests.check(table, labels=["cat", "dog"])


def test_empty(table):
    refused(table.iloc[:0], "no rows")


def test_missing_files_are_counted_and_the_first_three_shown(table):
    more = [table]
    for number in range(5):
        more.append(table.iloc[:1].assign(path=f"/nowhere/{number}.png"))
    message = refused(pd.concat(more, ignore_index=True), "5 rows", "/nowhere/0.png", "/nowhere/2.png", "2 more")
    assert "/nowhere/3.png" not in message
    assert "label cat" in message and "client a" in message


def test_missing_mask(table):
    table["mask"] = ["", "/nowhere/m.png", "", ""]
    refused(table, "1 row ", "mask", table.path[1])


def test_unknown_label(table):
    table.loc[2, "label"] = "cow"
    refused(table, "1 row ", "cow", table.path[2], "cat, dog", labels=["cat", "dog"])
    manifests.check(table)  # any label is good where none are asked for


def test_bad_split(table):
    table.loc[1, "split"] = "valid"
    refused(table, "split valid", "train, val, test", table.path[1])


@pytest.mark.parametrize("column", ["label", "client", "path"])
def test_blank_cells(table, column):
    table.loc[1, column] = " "
    refused(table, f"empty {column}", "1 row ")


def test_client_without_training_images(table):
    table.loc[table.client == "b", "split"] = "test"
    refused(table, "client b", "training", "2 rows")


def test_duplicate_path(table):
    refused(pd.concat([table, table.iloc[:1]]), "1 row ", table.path[0])


def test_subject_in_two_splits(table):
    table["subject"] = ["s1", "s2", "s3", "s4"]
    manifests.check(table)
    table["subject"] = ["", "", "s3", "s3"]  # unknown subjects are not one and the same
    refused(table, "2 rows", "subject", table.path[2])


def test_classes_in_natural_order(table):
    table["label"] = ["10", "9", "2", "9"]
    assert manifests.classes(table) == ["2", "9", "10"]
    table["label"] = ["b2", "b10", "a", "b2"]
    assert manifests.classes(table) == ["a", "b2", "b10"]


def test_fingerprint_changes_with_what_matters_only(table, tmp_path):
    first = manifests.fingerprint(table)
    assert len(first) == 16 and int(first, 16) >= 0
    elsewhere = tmp_path / "moved"
    elsewhere.mkdir()
    moved = table.copy()
    for row, path in enumerate(table.path):
        copy = elsewhere / path.rsplit("/", 1)[1]
        copy.write_bytes(Path(path).read_bytes())  # same contents, other time
        moved.loc[row, "path"] = str(copy)
    assert manifests.fingerprint(moved) == first
    for column in ("label", "client", "split"):
        other = table.copy()
        other.loc[0, column] = "other"
        assert manifests.fingerprint(other) != first
    assert manifests.fingerprint(table.iloc[::-1]) != first
    assert manifests.fingerprint(table.iloc[:3]) != first
    file = tmp_path / "a-train.png"
    file.write_bytes(b"x" * file.stat().st_size)  # same size, other contents
    assert manifests.fingerprint(table) != first


def test_classes_that_cannot_be_learned_or_tested():
    rows = [("a.png", "x", "train"), ("b.png", "y", "train"), ("c.png", "x", "test")]
    table = pd.DataFrame(rows, columns=["path", "label", "split"])
    notes = []
    manifests.check_classes(table, "--data d", notes)
    assert notes == ["--data d: class y has no test image, so nothing is said of it"]
    with pytest.raises(UserError, match=r"^--data d: only one class \(x\); a classifier needs two or more$"):
        manifests.check_classes(table[table.label == "x"], "--data d")
    with pytest.raises(UserError, match=r"^--data d: class y has no training image at any client; add some"):
        manifests.check_classes(table.assign(split=["train", "test", "test"]), "--data d")


def test_columns_that_are_not_used_are_named(tmp_path):
    (tmp_path / "m.csv").write_text("path,label,hospital\na.png,x,north\n")
    notes = []
    manifests.read_manifest(tmp_path / "m.csv", notes)
    assert notes == [f"{tmp_path / 'm.csv'}: columns that are not used: hospital"]
    (tmp_path / "m.csv").write_text("path;label\na.png;x\n")
    with pytest.raises(UserError, match="separated by semicolons; save it with commas"):
        manifests.read_manifest(tmp_path / "m.csv")
