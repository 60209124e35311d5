"""What a site publishes of its data, and the folder in which its worker finds it."""

import json
import os
import shutil

import cv2
import numpy as np
import pandas as pd
import pytest

from tffapps import __version__
from tffapps.data import published
from tffapps.errors import UserError
from tffapps.site import data
from tffapps.site.__main__ import main
from tffapps.wire import protocol

A = {
    "train": {"benign": 3, "malignant": 2},
    "val": {"benign": 0, "malignant": 0},
    "test": {"benign": 1, "malignant": 0},
}


def test_a_site_is_described_without_names(images, capsys):
    assert main(["describe", "--data", str(images), "--name", "a"]) == 0
    text = capsys.readouterr().out
    described = json.loads(text)
    assert described["name"] == "a" and described["version"] == __version__
    assert described["frameworks"] == {"tensorflow": "2.14.1", "tensorflow-federated": "0.87.0"}
    assert described["classes"] == ["benign", "malignant"] and described["images"] == A
    assert described["sizes"] == {"8x6": 4, "10x6": 2} and described["masks"] == 0
    assert described["formats"] == ["png"] and described["left_out"] == 0
    assert described["stand_in"] is False and described["subjects"] is False
    assert "Doe" not in text and "patients" not in text


def test_the_coordinator_makes_the_paths_from_the_counts(images):
    table = data.load(images, "a")
    description = json.loads(json.dumps(data.describe(table, "a")))
    listed = published.relative_manifest(description)
    assert list(listed.path) == [
        "train/0/000000", "train/0/000001", "train/0/000002", "train/1/000000", "train/1/000001", "test/0/000000",
    ]  # fmt: skip
    with data.working_folder(table, description) as folder:
        assert json.loads((folder / protocol.DESCRIPTION).read_text()) == description
        # Every listed row is the row of the manifest with the same class and split, and there are no others.
        real = {os.path.realpath(folder / row.path): (row.label, row.split) for row in listed.itertuples()}
        assert real == {os.path.realpath(row.path): (row.label, row.split) for row in table.itertuples()}
        assert all(f"{os.sep}a{os.sep}" in path for path in real)
        links = [name for _, _, names in os.walk(folder) for name in names]
        assert len(links) == 7  # six images and the description
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists() and len(data.load(images, "a")) == 6  # the links are gone, the images are not


def test_masks(images, tmp_path):
    rows = [
        ("a/train/benign/Jane-Doe-0.png", "benign", "a/train/benign/Jane-Doe-1.png"),
        ("a/train/benign/Jane-Doe-2.png", "benign", "a/train/malignant/Jane-Doe-0.png"),
    ]
    table = pd.DataFrame([(images / image, label, images / mask) for image, label, mask in rows])
    table.to_csv(tmp_path / "manifest.csv", index=False, header=["path", "label", "mask"])
    loaded = data.load(tmp_path / "manifest.csv", "here")
    assert set(loaded.client) == {"here"}  # a manifest without clients is the site's own
    description = data.describe(loaded, "here")
    listed = published.relative_manifest(description)
    assert description["masks"] == 2 and list(listed["mask"]) == ["train/0/000000.mask", "train/0/000001.mask"]
    with data.working_folder(loaded, description) as folder:
        assert os.path.realpath(folder / listed["mask"][1]) == str(images / rows[1][2])
    loaded.loc[0, "mask"] = ""
    assert "mask" not in published.relative_manifest(data.describe(loaded, "here"))


def test_micrographs_and_their_labels(tmp_path, monkeypatch):
    """A client's folder is the same rows as the folder of all clients gives for it; TIFF is converted."""
    monkeypatch.setenv("TFFAPPS_HOME", str(tmp_path / ".home"))
    for client in ("a", "b"):
        for kind in ("images", "labels"):
            (tmp_path / client / kind).mkdir(parents=True)
            for name in ("RG_2.png", "RG_10.png", "S_1.tif"):
                cv2.imwrite(str(tmp_path / client / kind / name), np.full((6, 8), 7, np.uint8))
    alone, together = data.load(tmp_path / "a", "a"), data.load(tmp_path, "a")
    pd.testing.assert_frame_equal(alone, together)
    assert [os.path.basename(path) for path in alone.file] == ["RG_2.png", "RG_10.png", "S_1.tif"]
    assert list(alone.path[:2]) == list(alone.file[:2]) and "/cache/converted/" in alone.path[2]
    assert list(alone.subject) == ["a/RG", "a/RG", "a/S"] and set(alone.split) == {"train"}
    kept, description = data.readable(alone, "a", tmp_path)
    assert len(kept) == 3 and description["left_out"] == 0
    assert description["masks"] == 3 and description["subjects"] and len(description["classes"]) == 1
    assert set(data.load(tmp_path / "b", "elsewhere").client) == {"elsewhere"}
    (tmp_path / "b/labels/S_1.tif").unlink()
    with pytest.raises(UserError, match="1 of 3 images without label of the same name"):
        data.load(tmp_path, "a")


def test_a_file_that_is_no_image_is_counted(tmp_path):
    (tmp_path / "benign").mkdir()
    (tmp_path / "benign" / "x.png").write_bytes(b"no image")
    assert data.describe(data.load(tmp_path, "a"), "a")["sizes"] == {"unreadable": 1}


def test_what_cannot_be_read_is_left_out_and_named_to_the_user(images, tmp_path, capfd):
    shutil.copytree(images, tmp_path / "copy")
    first, last = (tmp_path / "copy/a/train/benign" / f"Jane-Doe-{number}.png" for number in (0, 2))
    first.write_bytes(first.read_bytes()[:-20])
    before = data.describe(data.load(images, "a"), "a")
    table, description = data.readable(data.load(tmp_path / "copy", "a"), "a", tmp_path / "copy")
    assert f"left out: {first}: truncated PNG" in capfd.readouterr().err
    assert str(first) not in set(table.path) and str(last) in set(table.path)
    assert description["left_out"] == 1 and description["formats"] == ["png"]
    assert description["images"]["train"] == {"benign": 2, "malignant": 2}
    assert description["fingerprint"] != before["fingerprint"]


def test_several_clients_and_none_of_them(images):
    with pytest.raises(UserError, match=r"--name z: --data .*patients holds the clients a, b; give one of them"):
        data.load(images, "z")
