import pandas as pd
import pytest

from tffapps.data.unreadable import drop_unreadable, find_unreadable


@pytest.fixture
def files(tmp_path, rgb, encode):
    contents = {
        "good.png": encode(rgb),
        "misnamed.png": encode(rgb, "JPEG"),
        "padded.bmp": encode(rgb, "BMP") + b"\0\0",
        "empty.png": b"",
        "text.png": b"<html>not found</html>",
        "picture.gif": encode(rgb, "GIF"),
        "cut.png": encode(rgb)[:-20],
        "cut.jpg": encode(rgb, "JPEG")[:-30],
        "cut.bmp": encode(rgb, "BMP")[:-3],
        "wrong.png": encode(rgb)[:45] + b"????" + encode(rgb)[49:],
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder.png").mkdir()
    return [str(tmp_path / name) for name in [*contents, "gone.png", "folder.png"]]


EXPECTED = {
    "empty.png": "empty file",
    "text.png": "not a PNG, JPEG, BMP, TIFF, DICOM or NIfTI image",
    "picture.gif": "not a PNG, JPEG, BMP, TIFF, DICOM or NIfTI image",
    "cut.png": "truncated PNG",
    "cut.jpg": "truncated JPEG",
    "cut.bmp": "truncated BMP",
    "wrong.png": "damaged PNG",
    "gone.png": "missing",
    "folder.png": "cannot be opened: Is a directory",
}


@pytest.mark.parametrize("channels", [1, 3])
def test_each_bad_file_has_its_reason(files, channels):
    found = find_unreadable(files, channels)
    assert {path.rsplit("/", 1)[1]: reason for path, reason in found.items()} == EXPECTED


def test_drop_splits_the_manifest(files):
    table = pd.DataFrame({"path": files, "label": "x", "client": "c", "split": "train"}, index=range(50, 62))
    kept, dropped = drop_unreadable(table, 3)
    assert [path.rsplit("/", 1)[1] for path in kept.path] == ["good.png", "misnamed.png", "padded.bmp"]
    assert list(kept.columns) == list(table.columns) and list(kept.index) == [0, 1, 2]
    assert list(dropped.columns) == ["path", "client", "reason"]
    assert len(dropped) == len(EXPECTED)
    assert dropped.reason[dropped.path.str.endswith("gone.png")].item() == "missing"


def test_nothing_to_drop(files):
    table = pd.DataFrame({"path": files[:2], "label": "x", "client": "c", "split": "train"})
    kept, dropped = drop_unreadable(table, 3)
    pd.testing.assert_frame_equal(kept, table)
    assert dropped.empty and list(dropped.columns) == ["path", "client", "reason"]


def test_progress_is_shown_when_asked_for(files, capsys):
    find_unreadable(files[:2], 3)
    assert capsys.readouterr().err == ""
    find_unreadable(files[:2], 3, progress="checking")
    assert "checking: 2/2" in capsys.readouterr().err
