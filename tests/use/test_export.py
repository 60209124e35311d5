"""Files for other programs answer what the bundle answers, or are not there."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib

import numpy as np
import pytest

from models import unet
from models.assembled import assemble
from models.standalone import standalone
from tests.applications import check_help, working_in
from tests.models.test_cut import disturbed
from tests.use.conftest import CLASSES, SIDE
from tffapps.__main__ import main
from tffapps.evaluation.calibration import with_temperature
from tffapps.use import bundle, export, formats
from tffapps.use.formats import FORMATS

SUFFIX = {"keras": ".keras", "savedmodel": "", "tflite": ".tflite", "onnx": ".onnx"}
MISSING = any(importlib.util.find_spec(name) is None for name in formats._EXTRA)
EXTRA = pytest.mark.skipif(MISSING, reason="requirements-export.txt is not installed")
EVERY = [pytest.param(name, marks=EXTRA) if name == "onnx" else name for name in FORMATS]
SLOW = pytest.param("tflite", marks=pytest.mark.slow)  # converting takes seconds
RNG = np.random.default_rng(0)


@pytest.fixture
def here(tmp_path):
    with working_in(tmp_path):
        yield tmp_path


def difference(model, name: str, folder: pathlib.Path, images: int, temperature: float = 1.0) -> float:
    """Between a model and what a file of it answers."""
    pixels = RNG.integers(0, 256, (images, *model.input_shape[1:])).astype(np.float32)
    wanted = model.predict(pixels / 255, verbose=0, batch_size=4)
    if temperature != 1:
        wanted = with_temperature(wanted, temperature)
    path = folder / f"file{SUFFIX[name]}"
    FORMATS[name].write(standalone(model, temperature), path)
    answers = FORMATS[name].read(path)
    found = np.concatenate([answers(pixels[start : start + 4]) for start in range(0, images, 4)])
    assert found.shape == wanted.shape and np.ptp(wanted) > 0.01
    return float(np.abs(found - wanted).max())


@pytest.mark.parametrize("name", [SLOW if name == "tflite" else name for name in EVERY])
def test_a_bundle(name, kept_bundle, pictures, here, capfd):
    """One with group normalisation and a temperature: as `predict` answers, from pixels as decoders give them."""
    out = f"network{SUFFIX[name]}"
    assert main(["export", str(kept_bundle), "--to", name, "-o", out, "--check", *pictures[:2]]) == 0
    assert f"{out}: largest difference to the bundle" in capfd.readouterr().out
    assert sorted(os.listdir()) == sorted([out, f"{out}.json"])
    about = json.loads(pathlib.Path(f"{out}.json").read_text())
    assert about["classes"] == list(CLASSES) and about["checked"]["images"] == 10
    assert about["temperature"] == 2.0 and about["notice"] == "not a medical device"
    assert about["input"]["shape"][1:] == [SIDE, SIDE, 3]
    loaded = bundle.load(kept_bundle)
    images = RNG.random((3, SIDE, SIDE, 3)).astype(np.float32)
    wanted = loaded.decisions["chosen"].calibrated(loaded.model("chosen")(images).numpy())
    np.testing.assert_allclose(FORMATS[name].read(pathlib.Path(out))(255 * images), wanted, atol=1e-5)


def test_a_unet_of_an_odd_size(tmp_path):
    """Its padding is no layer of Keras's."""
    model = unet.build(input_shape=(20, 24, 1), width=2, depth=3)
    assert difference(model, "keras", tmp_path, 2) < 1e-5
    with pytest.raises(ValueError, match="does not end in a dense softmax"):
        standalone(model, 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("network", ["mobilenetv2", "resnet18", "densenet121", "unet"])
def test_fifty_images_of_large_networks(network, name, tmp_path):
    if network == "unet":
        model = unet.build(input_shape=(120, 136, 1), width=16)
    else:
        model = assemble(network, input_shape=(96, 96, 3), classes=5, head="gap").whole
        disturbed(model)  # else the answers to all images would be the same
    found = difference(model, name, tmp_path, 50, 1.0 if network == "unet" else 1.7)
    print(f"{network} {name} {found:.2g}")
    assert found < 1e-4


def test_what_differs_is_not_left(kept_bundle, here, monkeypatch, capsys):
    read = FORMATS["keras"].read

    def worse(path):
        answers = read(path)
        return lambda pixels: answers(pixels) + 2e-4

    monkeypatch.setitem(FORMATS, "keras", FORMATS["keras"]._replace(read=worse))
    refused(
        ["export", str(kept_bundle), "--to", "keras", "-o", "n.keras"], "differ from the bundle's by 0.0002", capsys
    )


def test_what_cannot_be_written_is_not_left(kept_bundle, here, monkeypatch, capsys):
    def fails(model, path):
        path.write_bytes(b"half of it")
        raise NotImplementedError("no such operation\nand a page more")

    monkeypatch.setitem(FORMATS, "tflite", FORMATS["tflite"]._replace(write=fails))
    refused(
        ["export", str(kept_bundle), "--to", "tflite", "-o", "n.tflite"], "cannot be written so (no such op", capsys
    )


def test_bad_input_is_one_line(kept_bundle, here, monkeypatch, capsys):
    command = ["export", str(kept_bundle), "--to", "keras", "-o"]
    refused([*command, "no/such/n.keras"], "-o no/such/n.keras: no folder no/such", capsys)
    refused([*command, "n.keras", "--check", "gone.png"], "gone.png: no such file", capsys)
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None)
    refused([*command[:2], "--to", "onnx", "-o", "n.onnx"], "pip install --no-deps -r requirements-export.txt", capsys)
    pathlib.Path("broken.png").write_bytes(b"\x89PNG")
    pathlib.Path("there").mkdir()
    kept = ["broken.png", "there"]
    refused([*command, "n.keras", "--check", "broken.png"], "--check broken.png: ", capsys, kept)
    refused([*command[:2], "--to", "savedmodel", "-o", "there"], "-o there: is there already", capsys, kept)
    refused([*command, "there"], "-o there: a folder; name a file", capsys, kept)


def refused(arguments, words, capsys, kept=()):
    capsys.readouterr()
    assert main(arguments) == 2
    said = capsys.readouterr().err.strip()
    assert words in said and "\n" not in said
    assert sorted(os.listdir()) == sorted(kept)


def test_made_images(kept_bundle):
    images = export.made_images(bundle.load(kept_bundle))
    assert images.shape == (8, SIDE, SIDE, 3) and images.dtype == np.float32
    assert images.min() == 0 and images.max() == 1
    np.testing.assert_array_equal(images, export.made_images(bundle.load(kept_bundle)))


def test_help():
    check_help("tffapps.use.export_command", "--check")
