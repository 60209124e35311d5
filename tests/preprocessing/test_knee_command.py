import csv
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from preprocessing.knee import decode, preprocess
from preprocessing.knee_command import main
from tests.preprocessing.folders import write_files
from tests.preprocessing.knees import knee, png

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """Three knees in two classes, and five files that are no use."""
    contents = {
        "0/good.png": png(knee()),
        "3/good.png": png(knee(bone=220)),
        "3/deep/photo.jpg": cv2.imencode(".jpg", knee())[1].tobytes(),
        "3/dark.png": png(np.zeros((224, 224), np.uint8)),
        "3/cut.png": png(knee())[:-3000],
        "3/text.png": b"hello",
        "4/half.png": png(knee(left=-0.1, right=0.6)),
        "notes.txt": b"hello",
    }
    return write_files(tmp_path / "in", contents)


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def contents(folder):
    return {name: (folder / name).read_bytes() for name in files(folder)}


def test_a_folder(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([str(folder), str(out), "--workers", "1"]) == 0
    assert files(out) == ["0/good.png", "3/deep/photo.jpg.png", "3/good.png", "rejected.csv"]
    assert np.array_equal(decode((out / "0/good.png").read_bytes()), preprocess(knee()))
    with open(out / "rejected.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["path"]: row["reason"].partition(":")[0] for row in rows} == {
        "3/cut.png": "truncated PNG",
        "3/dark.png": "nearly all dark",
        "3/text.png": "not an image",
        "4/half.png": "cut off at the left",
        "notes.txt": "not an image",
    }
    said = capsys.readouterr()
    assert "8 files: 3 accepted, 5 rejected\n  2 not an image\n  1 truncated PNG" in said.out
    assert said.err == "knee: 8/8\n"


def test_processes_and_reruns_give_the_same_files(folder, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert main([str(folder), str(first), "--workers", "1", "--steps"]) == 0
    assert main([str(folder), str(second), "--workers", "2", "--steps"]) == 0
    assert contents(first) == contents(second)
    (second / "0/good.png").write_bytes(b"spoilt")
    assert main([str(folder), str(second), "--workers", "1", "--steps"]) == 0
    assert contents(first) == contents(second)


def test_an_image_that_is_no_longer_accepted_goes(folder, tmp_path):
    out = tmp_path / "out"
    main([str(folder), str(out), "--workers", "1"])
    (folder / "0/good.png").write_bytes(b"hello")
    main([str(folder), str(out), "--workers", "1"])
    assert "0/good.png" not in files(out)


def test_contrast(folder, tmp_path):
    for contrast in ("clahe", "equalize"):
        assert main([str(folder), str(tmp_path / contrast), "--workers", "1", "--contrast", contrast]) == 0
    assert contents(tmp_path / "clahe")["0/good.png"] != contents(tmp_path / "equalize")["0/good.png"]


def test_steps_are_spread_over_the_folder_and_limited(folder, tmp_path):
    out = tmp_path / "out"
    assert main([str(folder), str(out), "--workers", "1", "--steps", "--steps-limit", "3"]) == 0
    # The first, third and fifth of the seven images. One of them is rejected: its strip shows why.
    assert files(out / "steps") == ["0/good.png", "3/dark.png", "3/good.png"]
    strip = decode((out / "steps/0/good.png").read_bytes())
    assert strip.shape == (224 + 20, 9 * 224)
    assert np.array_equal(strip[20:, -224:], preprocess(knee()))
    assert strip[:20].any()  # the names


def test_links_to_folders_are_followed_but_not_in_circles(folder, tmp_path):
    (folder / "5").symlink_to(folder / "0")
    (folder / "0" / "back").symlink_to(folder)
    assert main([str(folder), str(tmp_path / "out"), "--workers", "1"]) == 0
    assert {"0/good.png", "5/good.png"} <= set(files(tmp_path / "out"))


def test_nothing_accepted(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "text.png").write_bytes(b"hello")
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == 1
    assert "no image was accepted" in capsys.readouterr().err
    assert files(tmp_path / "out") == ["rejected.csv"]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("missing", "out", "missing: does not exist; give the folder"),
        ("in/notes.txt", "out", "in/notes.txt: is not a folder"),
        ("empty", "out", "empty: no images in it"),
        ("in", "in/out", "neither of IN and OUT may lie inside the other"),
        ("in", "in", "neither of IN and OUT may lie inside the other"),
        ("in/3", "in", "neither of IN and OUT may lie inside the other"),
        ("in", "file", "file: is there and is not a folder"),
        ("in", "file/out", "file/out: cannot be written: Not a directory"),
        ("in", "closed/out", "closed/out: cannot be written: Permission denied"),
    ],
)
def test_wrong_folders_are_said_in_one_line(folder, tmp_path, capsys, source, target, expected):
    if target.startswith("closed") and os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "closed").mkdir(mode=0o500)
    before = contents(tmp_path)
    assert main([str(tmp_path / source), str(tmp_path / target)]) == 2
    said = capsys.readouterr()
    assert expected in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert contents(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_two_images_that_would_become_one(folder, tmp_path, capsys):
    (folder / "3/deep/photo.jpg.png").write_bytes(png(knee()))
    assert main([str(folder), str(tmp_path / "out")]) == 2
    assert "would both become" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_result_that_cannot_be_written_stops_the_command(folder, tmp_path, capsys):
    (tmp_path / "out/0/good.png").mkdir(parents=True)
    assert main([str(folder), str(tmp_path / "out"), "--workers", "1"]) == 2
    assert "error: cannot write" in capsys.readouterr().err
    assert not [name for name in files(tmp_path / "out") if name.endswith(".tmp")]


@pytest.mark.parametrize("flags", [["--workers", "0"], ["--steps-limit", "x"], ["--contrast", "loud"]])
def test_wrong_flags(folder, tmp_path, flags):
    with pytest.raises(SystemExit) as caught:
        main([str(folder), str(tmp_path / "out"), *flags])
    assert caught.value.code == 2


def test_the_module_is_the_command_and_help_needs_no_opencv(folder, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "cv2.py").write_text("raise ImportError('OpenCV was imported')")
    command = [sys.executable, "-m", "preprocessing.knee"]
    path = os.pathsep.join([str(blocked), str(ROOT)])
    answer = subprocess.run([*command, "--help"], env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert answer.returncode == 0
    assert b"--steps-limit" in answer.stdout
    done = subprocess.run(
        [*command, folder, tmp_path / "out", "--workers", "2"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "8 files: 3 accepted, 5 rejected")
