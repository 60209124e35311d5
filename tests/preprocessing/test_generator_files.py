"""What is sent arrives, within what its precision allows; what has been tampered with is refused in one line."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from models import pix2pix
from models.pix2pix import Architecture
from models.pix2pix_weights import weights_of
from preprocessing.generator_files import GeneratorRejected, load, quantised, restored, save
from preprocessing.pix2pix_settings import PRECISIONS

UNET = Architecture("unet", (32, 48), 2, 1)


@pytest.fixture(scope="module")
def generator():
    return pix2pix.build(UNET, seed=5)


@pytest.fixture
def path(generator, tmp_path):
    save(tmp_path / "g.npz", generator, "int8")
    return tmp_path / "g.npz"


def refused(path, line, **expected):
    with pytest.raises(GeneratorRejected) as error:
        load(path, **expected)
    assert str(error.value).startswith(f"{path}: ") and line in str(error.value) and "\n" not in str(error.value)


def rewrite(path, **changes):
    """The file again, with arrays changed, or left out where None."""
    with np.load(path) as file:
        arrays = {**{name: file[name].copy() for name in file.files}, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("architecture", [UNET, Architecture("hd", (32, 32), 1, 3)], ids=["unet", "hd"])
def test_there_and_back(architecture, precision, tmp_path):
    sent = pix2pix.build(architecture, seed=5)
    sha256 = save(tmp_path / "g.npz", sent, precision)
    found = load(tmp_path / "g.npz", architecture, precision, sha256)
    assert pix2pix.architecture_of(found) == architecture
    for (name, weight), before, after in zip(weights_of(architecture).items(), sent.get_weights(), found.get_weights()):
        if precision == "float32" or weight.output_axis is None:
            np.testing.assert_array_equal(before, after, name)
        elif precision == "float16":  # 11 bits, or steps of 2⁻²⁴ near zero
            assert (np.abs(before - after) <= np.maximum(np.abs(before) * 2.0**-11, 2.0**-25)).all(), name
            assert not np.array_equal(before, after)
        else:
            others = tuple(axis for axis in range(4) if axis != weight.output_axis)
            half = np.abs(before).max(axis=others, keepdims=True) / 254
            assert (np.abs(before - after) <= half * (1 + 1e-5)).all(), name
            assert not np.array_equal(before, after)


def test_quantised_by_hand():
    """Two filters: 1.27 at most, so steps of 0.01; and one of zeros."""
    value = np.array([[1.27, 0.0], [-0.014, 0.0], [-1.27, 0.0], [0.016, 0.0]], np.float32)
    numbers, scale = quantised(value, 1)
    assert numbers.tolist() == [[127, 0], [-1, 0], [-127, 0], [2, 0]] and numbers.dtype == np.int8
    np.testing.assert_allclose(scale, [0.01, 0])
    np.testing.assert_allclose(restored(numbers, scale, 1), [[1.27, 0], [-0.01, 0], [-1.27, 0], [0.02, 0]], rtol=1e-6)


def test_filters_of_transposed_convolutions_have_a_scale_each(generator, tmp_path):
    save(tmp_path / "g.npz", generator, "int8")
    with np.load(tmp_path / "g.npz") as file:
        assert file["up4.kernel"].shape == (4, 4, 16, 16) and file["up1.kernel"].shape == (4, 4, 2, 8)
        assert file["up1.kernel.scale"].shape == (2,) and file["down1.kernel.scale"].shape == (4,)
        assert (np.abs(file["up1.kernel"]).max(axis=(0, 1, 3)) == 127).all()  # every filter uses its whole range


@pytest.mark.parametrize(("precision", "share"), [("float16", 0.52), ("int8", 0.27)])
def test_how_much_is_saved(precision, share, tmp_path):
    """At a width that small machines train."""
    model = pix2pix.build(Architecture("unet", (96, 96), 16, 1))
    save(tmp_path / "whole.npz", model)
    save(tmp_path / "small.npz", model, precision)
    small, whole = ((tmp_path / name).stat().st_size for name in ("small.npz", "whole.npz"))
    assert small <= share * whole
    assert whole > 4 * model.count_params()


def test_a_small_file_makes_nearly_the_same_images(tmp_path):
    architecture = Architecture("unet", (32, 32), 8, 1)
    model = pix2pix.build(architecture)
    save(tmp_path / "g.npz", model, "int8")
    label = np.where(np.random.default_rng(0).random((2, 32, 32, 1)) < 0.2, 1, -1).astype(np.float32)
    whole, small = model(label).numpy(), load(tmp_path / "g.npz")(label).numpy()
    assert np.abs(whole - small).mean() < 0.05 * np.abs(whole).mean()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda a: a[:, :-1], "down1.kernel is int8 (4, 3, 2, 4), expected int8 (4, 4, 2, 4)"),
        (lambda a: a.transpose(0, 1, 3, 2), "down1.kernel is int8 (4, 4, 4, 2), expected int8 (4, 4, 2, 4)"),
        (lambda a: a[0], "down1.kernel is int8 (4, 2, 4), expected int8"),
        (lambda a: a.astype(np.float32), "down1.kernel is float32 (4, 4, 2, 4), expected int8"),
        (lambda a: a.astype(object), "down1.kernel is pickled objects (4, 4, 2, 4), expected int8"),
        (lambda a: -a, "its SHA-256 is "),
        (lambda a: None, "wrong names: "),
    ],
    ids=["shape", "order", "dimensions", "type", "pickle", "value", "missing"],
)
def test_kernels_that_are_not(change, line, path):
    with np.load(path) as file:
        array = file["down1.kernel"]
    rewrite(path, **{"down1.kernel": change(array)})
    refused(path, line)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": np.array("vae")}, "generator vae: unknown; choose one of unet, hd"),
        ({"name": np.array("hd")}, "wrong names: "),
        ({"name": np.array("u\nnet")}, "name is not a short line of text"),
        ({"name": np.array("x" * 999)}, "name is <U999 (), expected a short text"),
        ({"name": np.array({}, object)}, "name is pickled objects (), expected a short text"),
        ({"name": None}, "not a generator: it has no name"),
        ({"precision": np.array("int4")}, "its precision is 'int4', expected float32 or float16 or int8"),
        ({"precision": np.array("float32")}, "wrong names: "),
        ({"width": np.array(3)}, "down0.kernel is int8 (4, 4, 1, 2), expected int8 (4, 4, 1, 3)"),
        ({"width": np.array(10**9)}, "width 1000000000, size (32, 48): at most 1024 and 16384"),
        ({"width": np.array(0)}, "width 0, size (32, 48): at most"),
        ({"width": np.array(2.0)}, "width is float64 (), expected int64 ()"),
        ({"channels": np.array(2)}, "channels 2: images have 1 or 3"),
        ({"channels": np.array(3)}, "up0.kernel is int8 (4, 4, 1, 4), expected int8 (4, 4, 3, 4)"),
        ({"size": np.array([32, -1])}, "size (32, -1): at most"),
        ({"size": np.array([32, 32])}, "its SHA-256 is "),
        ({"size": np.array(32)}, "size is int64 (), expected int64 (2,)"),
        ({"sha256": np.array("0" * 64)}, "expected 000000000000…"),
        ({"extra": np.zeros(3)}, "wrong names: "),
        ({"up0.bias": np.array([np.nan], np.float32)}, "up0.bias holds values that are not finite"),
        ({"down0.kernel.scale": np.array([1, np.inf], np.float32)}, "down0.kernel.scale holds values that are not"),
        ({"down0.kernel.scale": np.array([1, -1], np.float32)}, "down0.kernel.scale holds values below 0 or too large"),
        ({"down0.kernel.scale": np.array([1, 3e38], np.float32)}, "values below 0 or too large"),
    ],
)
def test_other_things_that_are_wrong(changes, line, path):
    rewrite(path, **changes)
    refused(path, line)


def test_what_was_not_expected(path):
    refused(
        path,
        "another generator: unet of width 2 for 32x48 pixels, 1 channels; expected unet of width 4 for 32x48 pixels",
        expected=Architecture("unet", (32, 48), 4, 1),
    )
    refused(path, "its precision is 'int8', expected float32", precision="float32")
    refused(path, "expected abababababab…", sha256="ab" * 32)


def test_a_bomb_is_not_unpacked(path, monkeypatch):
    with np.load(path) as file:
        arrays = {**{name: file[name] for name in file.files}, "down0.kernel": np.zeros((2000, 50, 50), np.float32)}
    np.savez_compressed(path, **arrays)
    assert path.stat().st_size < 10**6
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it was read"))
    refused(path, "too large: 200", max_bytes=10**6)


def test_no_model_is_built_for_what_is_refused(path, monkeypatch):
    monkeypatch.setattr(pix2pix, "build", lambda *_: pytest.fail("it was built"))
    rewrite(path, width=np.array(1024))
    refused(path, "down0.kernel is int8 (4, 4, 1, 2), expected int8 (4, 4, 1, 1024)")


@pytest.mark.parametrize("cut", [0, 1, 100, -1, -30, -2000])
def test_truncated(cut, path):
    path.write_bytes(path.read_bytes()[:cut])
    refused(path, "damaged, or not an .npz")


def test_a_byte_changed_on_the_way(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(path, "damaged")


def test_no_file(tmp_path):
    refused(tmp_path / "none.npz", "no such file; give one written by preprocessing.pix2pix")


@pytest.mark.parametrize(
    ("value", "precision", "line"),
    [
        (np.nan, "float32", "down0.kernel holds values that are not finite; it is not written"),
        (1e5, "float16", "down0.kernel holds values too large for float16; choose another precision"),
    ],
)
def test_what_nobody_would_take_is_not_written(value, precision, line, tmp_path):
    broken = pix2pix.build(UNET)
    broken.get_layer("down0").kernel.assign(np.full((4, 4, 1, 2), value))
    with pytest.raises(GeneratorRejected, match=line):
        save(tmp_path / "g.npz", broken, precision)
    assert not list(tmp_path.iterdir())


def test_unknown_precision(generator, tmp_path):
    with pytest.raises(ValueError, match="precision int4: unknown; choose one of float32, float16, int8"):
        save(tmp_path / "g.npz", generator, "int4")
