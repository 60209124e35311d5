"""`python -m preprocessing.pix2pix`, and the pairs it reads."""

from __future__ import annotations

import csv

import cv2
import numpy as np
import pytest

from models.pix2pix import Architecture
from preprocessing import generator_files
from preprocessing.errors import UserError
from preprocessing.pix2pix import generate
from preprocessing.pix2pix_command import main
from preprocessing.pix2pix_inputs import list_pairs, read_pairs
from tests.models.grains import grains
from tests.preprocessing.folders import write_files


def png(image):
    return cv2.imencode(".png", image[..., ::-1] if image.ndim == 3 else image)[1].tobytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, labels = grains(3, 32)
    files = {f"in/{n}.png": png(image) for n, image in enumerate(images)}
    files |= {f"labels/{n}.png": png(label * 255) for n, label in enumerate(labels)}
    files |= {f"dark/{n}.png": png(255 - label * 255) for n, label in enumerate(labels)}
    return write_files(tmp_path, files)


def run(*arguments):
    return main([*arguments, "--width", "2", "--epochs", "2", "--every", "1"])


def test_the_command(folder, capsys):
    start = ["--images", "in", "--labels", "labels", "-o", "out", "--precision", "int8"]
    assert run(*start) == 0
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "checkpoint.npz", "generator.npz", "losses.csv", "samples",
    ]  # fmt: skip
    with open("out/losses.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"] and 0 < float(rows[1]["l1"]) < 2
    said = capsys.readouterr()
    assert said.out.startswith("3 pairs with light boundaries, unet of width 2, 2 epochs, L1 ")
    assert said.out.endswith(": out/generator.npz, int8, 0.03 MB\n") and "pix2pix unet: 4/4" in said.err

    first = (folder / "out/generator.npz").read_bytes()
    model = generator_files.load("out/generator.npz", Architecture("unet", (32, 32), 2, 3), "int8")
    assert generate(model, grains(3, 32)[1]).shape == (3, 32, 32, 3)
    (folder / "out/generator.npz").unlink()
    assert run(*start) == 0  # all is done; the file is written again
    assert (folder / "out/generator.npz").read_bytes() == first
    assert run(*start, "--seed", "1") == 2
    assert "out/checkpoint.npz: of other images, labels or settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "arguments", "status", "line"),
    [
        ({}, ["--images", "none"], 2, "none: No such file or directory"),
        ({"in/9.png": b""}, [], 2, "in/9.png: has no label of its name in labels; add or remove"),
        (
            {"labels/8.png": b"", "labels/9.png": b""},
            [],
            2,
            "labels/8.png: has no image of its name in in, and so have 1",
        ),
        ({"in/0.jpg": b""}, [], 2, "would both become"),
        ({"labels/1.png": png(np.full((32, 32), 7, np.uint8))}, [], 2, "labels/1.png: holds the values 7; a label has"),
        ({"labels/1.png": png(np.zeros((16, 32), np.uint8))}, [], 2, "labels/1.png: is 16x32 pixels, its image 32x32"),
        (
            {"in/1.png": png(np.zeros((16, 16, 3), np.uint8)), "labels/1.png": png(np.zeros((16, 16), np.uint8))},
            [],
            2,
            "in/1.png: is 16x16 pixels, others are 32x32; give --size",
        ),
        (
            {f"labels/{n}.png": png(np.zeros((32, 32), np.uint8)) for n in range(3)},
            [],
            2,
            "all labels are of one value",
        ),
        ({f"in/{n}.png": b"no" for n in range(3)}, [], 1, "in: no pair could be read"),
        ({"out": b""}, [], 2, "out: is there and is not a folder"),
        ({}, ["-o", "labels"], 2, "labels: holds the images or the labels; choose another OUT"),
    ],
)
def test_bad_input(files, arguments, status, line, folder, capsys):
    write_files(folder, files)
    assert run("--images", "in", "--labels", "labels", "-o", "out", *arguments) == status
    assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--l1", "-1"], "'-1' is not a number of 0 or more"),
        (["--l1", "nan"], "'nan' is not a number of 0 or more"),
        (["--seed", "-1"], "'-1' is not a whole number of 0 or more"),
        (["--epochs", "0"], "'0' is not a number above 0"),
        (["--generator", "vae"], "invalid choice: 'vae'"),
        (["--channels", "2"], "invalid choice: 2"),
    ],
)
def test_bad_flags(arguments, line, capsys):
    with pytest.raises(SystemExit) as error:
        main(["--images", "in", "--labels", "labels", "-o", "out", *arguments])
    assert error.value.code == 2 and line in capsys.readouterr().err


def test_light_and_dark_boundaries_are_the_same(folder):
    images, expected = grains(3, 32)
    for name, found in (("labels", "light"), ("dark", "dark")):
        pictures, labels, boundary = read_pairs(list_pairs(folder / "in", folder / name), None, 3, "test")
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(pictures, images)
        assert boundary == found


@pytest.mark.parametrize("dark", [False, True])
def test_thin_boundaries_stay_whole_when_made_smaller(dark, tmp_path):
    label = np.zeros((40, 40), np.uint8)
    np.fill_diagonal(label, 1)
    stored = (1 - label if dark else label) * 255
    write_files(tmp_path, {"in/a.png": png(np.zeros((40, 40), np.uint8)), "labels/a.png": png(stored)})
    pictures, labels, _ = read_pairs(list_pairs(tmp_path / "in", tmp_path / "labels"), 10, 1, "test")
    np.testing.assert_array_equal(labels[0], np.eye(10))
    assert pictures.shape == (1, 10, 10, 1)


def test_a_damaged_pair_is_left_out(folder, capsys):
    write_files(folder, {"labels/1.png": (folder / "labels/1.png").read_bytes()[:-20]})
    images, labels, _ = read_pairs(list_pairs(folder / "in", folder / "labels"), None, 1, "pix2pix")
    assert len(images) == len(labels) == 2
    said = capsys.readouterr().err
    assert f"preprocessing.pix2pix: left out: {folder}/labels/1.png: truncated PNG" in said


def test_values_0_and_1(folder):
    write_files(folder, {f"labels/{n}.png": png(label) for n, label in enumerate(grains(3, 32)[1])})
    np.testing.assert_array_equal(
        read_pairs(list_pairs(folder / "in", folder / "labels"), None, 1, "")[1], grains(3)[1]
    )


def test_no_pair(tmp_path):
    with pytest.raises(UserError, match="no images in it"):
        list_pairs(tmp_path, tmp_path)
