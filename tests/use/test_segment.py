"""`tffapps segment` with a U-Net made by hand, which calls dark pixels boundary, on drawn grains of known size."""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import cv2
import numpy as np
import pandas as pd
import pytest

from models import unet
from tffapps.use import bundle, folder, segment
from tffapps.use.bundle import Preprocess
from tffapps.use.decision import Decision
from tffapps.use.network import UNET, Description
from tffapps.use.recipe import Halves, Recipe
from tffapps.use.write import write

ROOT = pathlib.Path(__file__).resolve().parents[2]
TILE, SIDE, COUNT = 64, 50, 4  # of the network; of the squares drawn
UM = 0.5


def dark_is_boundary() -> list[np.ndarray]:
    """Weights with which one value a pixel goes straight through: how dark it is."""
    model = unet.build(input_shape=(TILE, TILE, 1), width=1, depth=1)
    model.set_weights([np.zeros(each.shape, np.float32) for each in model.weights])
    for name, place, value in [
        ("down0_conv1", (1, 1, 0, 0), -1.0), ("down0_conv2", (1, 1, 0, 0), 1.0), ("up0_conv1", (1, 1, 0, 0), 1.0),
        ("up0_conv2", (1, 1, 0, 0), 1.0), ("classifier", (0, 0, 0, unet.BOUNDARY), 12.0),
    ]:  # fmt: skip
        kernel, bias = model.get_layer(name).get_weights()
        kernel[place] = value
        if name == "classifier":
            bias[unet.BOUNDARY] = -6.0
        model.get_layer(name).set_weights([kernel, bias])
    return model.get_weights()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    network = Description(UNET, {"width": 1, "depth": 1}, (TILE, TILE, 1), 2)
    recipe = Recipe(
        network, ("grain", "boundary"), Preprocess((TILE, TILE), 1, tile=TILE), lambda all_: Halves([], list(all_)),
        "drawn", "by hand",
    )  # fmt: skip
    return write(
        tmp_path_factory.mktemp("run"), recipe, {"last": dark_is_boundary()}, system="fedtransfer",
        decisions={"last": Decision()}, scores=None, provenance={},
    )  # fmt: skip


def drawn(side: int = SIDE, line: int = 3) -> np.ndarray:
    """Squares that begin half a square before the rim, dark lines on grey."""
    at = (np.arange(side * COUNT) + side // 2) % side < line
    return np.where(at[:, None] | at[None, :], 10, 210).astype(np.uint8)


@pytest.fixture(scope="module")
def micrographs(tmp_path_factory):
    place = tmp_path_factory.mktemp("micrographs")
    (place / "more").mkdir()
    cv2.imwrite(str(place / "grey.png"), drawn())
    cv2.imwrite(str(place / "more" / "colour.tif"), cv2.cvtColor(drawn()[:, :150], cv2.COLOR_GRAY2BGR))
    (place / "notes.txt").write_text("no micrograph")
    (place / "broken.jpg").write_bytes(b"\xff\xd8\xff no")
    return place


@pytest.fixture(scope="module")
def done(model, micrographs, tmp_path_factory):
    """Status and folder of one command over all."""
    out = tmp_path_factory.mktemp("done") / "out"
    return segment.main([str(model), str(micrographs), "-o", str(out), "--micron-per-pixel", str(UM)]), out


def test_the_sizes_are_those_drawn(done):
    table = pd.read_csv(done[1] / "grains.csv").set_index("micrograph")
    grey = table.loc["grey"]
    assert (grey.width, grey.height, grey.whole_grains, grey.cut_grains, grey.grains) == (200, 200, 9, 16, 16)
    assert grey.mean_area_um2 == (SIDE * UM) ** 2
    assert grey.diameter_p50_um == pytest.approx(np.sqrt(4 / np.pi) * SIDE * UM, rel=0.03)
    assert [grey.intercept_horizontal_um, grey.intercept_vertical_um] == pytest.approx([SIDE * UM] * 2, rel=0.02)
    assert grey.intercept_um == pytest.approx(np.pi / 4 * SIDE * UM, rel=0.03)
    # −6.643856 log10(0.0196) − 3.288 and 3.321928 log10(1600 / mm²) − 2.954
    assert [grey.G_intercepts, grey.G_areas] == pytest.approx([8.05, 7.69], abs=0.1)
    assert table.loc["more/colour"].whole_grains == 6


def test_a_file_that_cannot_be_read_is_one_line_and_no_row(model, micrographs, tmp_path, capsys):
    assert segment.main([str(model), str(micrographs), "-o", str(tmp_path / "out")]) == 1
    out, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if "broken" in line]
    assert line.endswith("left out: truncated JPEG: no end-of-image mark in 6 bytes") and "notes" not in err
    table = pd.read_csv(tmp_path / "out" / "grains.csv")
    assert list(table.micrograph) == ["grey", "more/colour"]
    assert "2 micrographs, 15 whole grains: mean intercept 38" in out and "pixels ±" in out
    assert "G_areas" not in table and "intercept_px" in table


def test_a_name_that_a_spreadsheet_would_run_is_text(model, micrographs, tmp_path):
    shutil.copy(micrographs / "grey.png", tmp_path / "=1+1.png")
    assert segment.main([str(model), str(tmp_path / "=1+1.png"), "-o", str(tmp_path / "out")]) == 0
    assert pd.read_csv(tmp_path / "out" / "grains.csv").micrograph[0] == "'=1+1"


def test_masks_labels_and_overlays(done, micrographs):
    status, out = done
    assert status == 1
    names = {"grey_boundary.png", "grey_grains.png", "grey_overlay.png", "grains.csv", "more"}
    assert {path.name for path in out.iterdir()} == names
    mask, labels, overlay = (
        cv2.imread(str(out / f"grey_{name}.png"), cv2.IMREAD_UNCHANGED) for name in ("boundary", "grains", "overlay")
    )
    assert labels.dtype == np.uint16 and labels.max() == 25 and mask.dtype == np.uint8
    assert np.array_equal(mask == 255, labels == 0) and set(np.unique(mask)) == {0, 255}
    assert (drawn()[mask == 255] == 10).all()
    assert (overlay[mask == 255] == (0, 80, 255)).all()  # OpenCV's order
    assert overlay[50, 50].tolist() == [210] * 3 and overlay[5, 5].tolist() == [115] * 3  # whole; cut by the rim


def test_more_grains_than_16_bits_hold(tmp_path):
    from tffapps.use import micrograph

    labels = np.arange(300 * 300, dtype=np.int32).reshape(300, 300)
    micrograph.write(tmp_path / "many", np.zeros((300, 300, 3), np.uint8), labels)
    assert np.array_equal(cv2.imread(str(tmp_path / "many_grains.tif"), cv2.IMREAD_UNCHANGED), labels)
    assert not (tmp_path / "many_grains.png").exists()


@pytest.mark.parametrize("flags", [["--method", "cut"], ["--threshold", "0.4"], ["--scale", "0.5"]], ids=str)
def test_other_ways_find_the_same_grains(flags, model, micrographs, tmp_path):
    out = tmp_path / "out"
    assert segment.main([str(model), str(micrographs / "grey.png"), "-o", str(out), *flags]) == 0
    row = pd.read_csv(out / "grains.csv").iloc[0]
    assert (row.whole_grains, row.cut_grains) == (9, 16) and row.intercept_px == pytest.approx(39.3, rel=0.04)


@pytest.mark.parametrize(("tile", "expected"), [(None, 1), (64, 1), (128, 0.5), (0, 0.32)])
def test_the_network_sees_micrographs_as_large_as_in_training(tile, expected):
    """64 pixels were made of tiles of so many; 0: of the shorter side, here 200."""
    preprocess = Preprocess((TILE, TILE), 1, tile=tile)
    assert segment._scale(preprocess, np.zeros((200, 300, 3))) == expected


MISTAKES = {
    "no such file": (["MODEL", "nowhere.png"], "nowhere.png: no such file or folder"),
    "no bundle": (["nowhere", "PICTURE"], "nowhere"),
    "no images in it": (["MODEL", "EMPTY"], "no images in it"),
    "twice one name": (["MODEL", "PICTURE", "PICTURE"], "would both become grey; rename one"),
    "out in in": (["MODEL", "FOLDER", "-o", "FOLDER/out"], "neither of IN and OUT may lie inside the other"),
    "a size that is none": (["MODEL", "PICTURE", "--micron-per-pixel", "nan"], "'nan' is not a number above 0"),
    "too high": (["MODEL", "PICTURE", "--threshold", "1.5"], "'1.5' is neither auto nor a number between 0 and 1"),
    "no grain": (["MODEL", "PICTURE", "--min-grain", "0"], "'0' is not a whole number above 0"),
    "none can be read": (["MODEL", "FOLDER/broken.jpg"], "none of the micrographs could be read"),
    "far too large": (["MODEL", "PICTURE", "--scale", "100"], "none of the micrographs could be read"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake, model, micrographs, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    arguments, message = MISTAKES[mistake]
    places = {"MODEL": model, "PICTURE": micrographs / "grey.png", "EMPTY": "empty", "FOLDER": micrographs}
    for word, place in places.items():
        arguments = [each.replace(word, str(place)) for each in arguments]
    try:
        status = segment.main(arguments)
    except SystemExit as left:
        status = left.code
    errors = capsys.readouterr().err
    assert status == 2 and message in errors and errors.count("error:") == 1
    assert not list(tmp_path.rglob("*.png")) and not list(tmp_path.rglob("*.csv"))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"classes": ["grain", "pore"]}, "no class boundary among grain, pore"), ({"network": {}}, "bundle.json")],
)
def test_a_bundle_of_something_else(change, message, model, micrographs, tmp_path, capsys):
    other = tmp_path / "bundle"
    other.mkdir()
    for path in model.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    about = json.loads((other / bundle.FILE).read_text())
    (other / bundle.FILE).write_text(json.dumps({**about, **change}))
    for path in other.glob("*SUMS"):
        path.unlink()
    folder.write_sums(other)
    assert segment.main([str(other), str(micrographs), "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_classifier_is_told_apart(model, monkeypatch, micrographs, tmp_path, capsys):
    loaded = bundle.load(model)
    classifier = dataclasses.replace(loaded, network=dataclasses.replace(loaded.network, kind="classifier"))
    monkeypatch.setattr(bundle, "load", lambda path: classifier)
    assert segment.main([str(model), str(micrographs), "-o", str(tmp_path / "out")]) == 2
    assert "use `tffapps predict`" in capsys.readouterr().err


def test_help_does_not_wait_for_tensorflow():
    code = (
        "import sys; from tffapps.use import segment\ntry:\n segment.main(['--help'])\nexcept SystemExit:\n pass\n"
        "print([name for name in ('tensorflow', 'pandas', 'skimage') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"
