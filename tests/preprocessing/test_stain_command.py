import csv
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from preprocessing.stain import StainSettings, matrices_of, normalise, separate, strength
from preprocessing.stain_command import main
from tests.preprocessing.folders import write_files
from tests.preprocessing.stains import patches

ROOT = Path(__file__).parents[2]


def png(image):
    return cv2.imencode(".png", image[..., [2, 1, 0, 3][: image.shape[2]]])[1].tobytes()


def picture(path):
    return cv2.imread(str(path), cv2.IMREAD_UNCHANGED)[..., ::-1]


@pytest.fixture
def folder(tmp_path):
    images, _ = patches(3)
    contents = {
        "a/1.png": png(images[0]),
        "a/2.jpg": cv2.imencode(".jpg", images[1][..., ::-1])[1].tobytes(),
        "b/small.png": png(np.ascontiguousarray(images[2, :64, :80])),
        "b/clear.png": png(np.concatenate([images[0], np.full((96, 96, 1), 255, np.uint8)], axis=2)),
        "b/white.png": png(np.full((96, 96, 3), 255, np.uint8)),
        "b/grey.png": cv2.imencode(".png", images[0, :, :, 0])[1].tobytes(),
        "b/deep.png": cv2.imencode(".png", images[0].astype(np.uint16) * 257)[1].tobytes(),
        "b/cut.png": png(images[0])[:-3000],
        "notes.txt": b"hello",
    }
    return write_files(tmp_path / "in", contents)


def rows(out):
    with open(out / "stains.csv", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("method", ["vahadane", "macenko"])
def test_a_folder(method, folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([str(folder), str(out), "--method", method, "--workers", "2"]) == 0
    assert [path.name for path in out.iterdir()] == ["stains.csv"]
    table = rows(out)
    assert list(table) == sorted(table)
    assert {name: row["reason"].partition(":")[0] for name, row in table.items() if row["ok"] == "False"} == {
        "b/cut.png": "truncated PNG",
        "b/deep.png": "not 8 bits",
        "b/grey.png": "not in colour",
        "b/white.png": "too little tissue",
        "notes.txt": "not an image",
    }
    numbers = [float(table["a/1.png"][name]) for name in ("h_red", "h_green", "h_blue", "e_red", "e_green", "e_blue")]
    expected = matrices_of(picture(folder / "a/1.png")[None], StainSettings(method=method))[0][0]
    assert numbers == pytest.approx(expected.T.ravel(), abs=1e-6)
    assert {table["b/white.png"][name] for name in ("h_red", "e_blue")} == {""}
    assert {**table["b/clear.png"], "file": ""} == {**table["a/1.png"], "file": ""}
    said = capsys.readouterr()
    assert said.out.startswith("9 files: 4 separated, 5 not\n  1 ")
    assert said.err == "stain: 9/9\n"


def test_a_target(folder, tmp_path):
    out, target = tmp_path / "out", tmp_path / "target.png"
    target.write_bytes(png(patches(1, seed=5)[0][0]))
    (out / "b").mkdir(parents=True)
    (out / "b/cut.png").write_bytes(b"from an earlier run")
    assert main([str(folder), str(out), "--target", str(target)]) == 0
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.png")) == [
        "a/1.png",
        "a/2.jpg.png",
        "b/clear.png",
        "b/small.png",
        "b/white.png",
    ]
    assert np.array_equal(picture(out / "b/white.png"), picture(folder / "b/white.png"))  # kept as it is
    wanted = separate(picture(target)[None])
    source = separate(picture(folder / "a/1.png")[None])
    expected = normalise(source.densities, wanted.matrices[0], strength(wanted.densities)[0])[0]
    assert np.array_equal(picture(out / "a/1.png"), expected)
    assert np.array_equal(picture(out / "b/clear.png"), expected)
    first = {path: path.read_bytes() for path in out.rglob("*.*")}
    assert main([str(folder), str(out), "--target", str(target), "--workers", "1"]) == 0
    assert first == {path: path.read_bytes() for path in out.rglob("*.*")}


def test_wrong_use_is_one_line(folder, tmp_path, capsys):
    good, out = str(folder), str(tmp_path / "out")
    for arguments, expected in (
        ([str(tmp_path / "nowhere"), out], "nowhere: does not exist; give the folder"),
        ([good, good], "neither of IN and OUT may lie inside the other"),
        ([good, out, "--target", good + "/b/white.png"], "white.png: cannot be the target: too little tissue: 0.0%"),
        ([good, out, "--target", good + "/b/cut.png"], "cut.png: cannot be the target: truncated PNG"),
        ([good, out, "--target", good + "/gone.png"], "gone.png: cannot be the target: cannot be opened"),
    ):
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert expected in said
        assert said.count("\n") == 1
    (folder / "a/2.jpg.png").write_bytes((folder / "a/1.png").read_bytes())
    assert main([good, out, "--target", good + "/a/1.png"]) == 2
    assert "would both become a/2.jpg.png; rename one" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main([good, out, "--method", "reinhard"])
    assert stopped.value.code == 2
    assert not Path(out).exists()


def test_nothing_separated(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/white.png").write_bytes(png(np.full((32, 32, 3), 255, np.uint8)))
    assert main([str(tmp_path / "in"), str(tmp_path / "out")]) == 1
    assert "no patch could be separated" in capsys.readouterr().err


def test_help_is_quick_and_needs_no_numpy():
    code = "import sys; sys.modules.update(numpy=None, cv2=None); import runpy; sys.argv = ['x', '--help']; "
    code += "runpy.run_module('preprocessing.stain', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--target FILE" in done.stdout
