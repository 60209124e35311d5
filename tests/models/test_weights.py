"""Weights from files of every kind, from Keras's cache, and every way in which that can fail."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import tensorflow as tf

from models import downloads
from models import weights as module
from models.classifiers import base_of, build
from models.weight_sources import IMAGENET
from models.weights import WeightsError, WeightsUsed, load, load_npz, save_npz

REAL = os.environ.get("TFFAPPS_REAL_WEIGHTS")


def tiny(seed: int = 0, classes: int = 3, head: str = "gap") -> tf.keras.Model:
    return build("tiny", input_shape=(16, 16, 3), classes=classes, head=head, seed=seed)


def trained(**arguments) -> tf.keras.Model:
    """A model none of whose weights is an initial value."""
    model = tiny(seed=99, **arguments)
    generator = np.random.default_rng(0)
    model.set_weights([generator.random(v.shape).astype(np.float32) + 1 for v in model.weights])
    return model


def assert_same(ours, theirs):
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs):
        np.testing.assert_array_equal(a, b)


def save_h5(model: tf.keras.Model, path: Path) -> None:
    model.save_weights(str(path), save_format="h5")


def save_by_kind(model: tf.keras.Model, path: Path) -> None:
    """The format Keras picks for the name *.weights.h5, under another name."""
    model.save_weights(str(path.with_name("t.weights.h5")))
    path.with_name("t.weights.h5").rename(path)


def save_whole_h5(model: tf.keras.Model, path: Path) -> None:
    model.save(str(path), save_format="h5")


FORMATS = [save_h5, save_by_kind, save_npz]


@pytest.mark.parametrize("save", [*FORMATS, save_whole_h5])
def test_a_whole_model_is_loaded_with_its_head(save, tmp_path):
    source, path = trained(), tmp_path / "whole.bin"
    save(source, path)
    model = tiny()
    used = load(model, "tiny", str(path), seed=0)
    assert_same(model.get_weights(), source.get_weights())
    assert used == WeightsUsed("file", str(path), hashlib.sha256(path.read_bytes()).hexdigest(), "model")
    assert used.label == "file:whole.bin"


@pytest.mark.parametrize("save", FORMATS)
def test_a_backbone_is_loaded_under_a_seeded_head(save, tmp_path):
    source, path = trained(), tmp_path / "backbone.h5"
    save(base_of(source), path)
    model = tiny(seed=1)
    assert load(model, "tiny", str(path), seed=4).part == "backbone"
    assert_same(base_of(model).get_weights(), base_of(source).get_weights())
    assert_same(model.get_weights()[-2:], tiny(seed=4).get_weights()[-2:])


@pytest.mark.parametrize("save", FORMATS)
@pytest.mark.parametrize("other", [dict(classes=5), dict(head="flatten256")])
def test_another_head_is_left_out(save, other, tmp_path):
    source, path = trained(**other), tmp_path / "other_head.h5"
    save(source, path)
    model = tiny()
    assert load(model, "tiny", str(path), seed=4).part == "backbone"
    assert_same(base_of(model).get_weights(), base_of(source).get_weights())
    assert_same(model.get_weights()[-2:], tiny(seed=4).get_weights()[-2:])


def test_a_frozen_model_is_saved_and_loaded_in_the_same_order(tmp_path):
    source, path = trained(), tmp_path / "frozen.h5"
    base_of(source).trainable = False
    save_h5(source, path)
    model = tiny()
    load(model, "tiny", str(path), seed=0)
    assert_same(model.get_weights(), source.get_weights())


def test_names_cut_into_several_attributes(tmp_path):
    source, path = trained(), tmp_path / "cut.h5"
    save_h5(source, path)
    with h5py.File(path, "r+") as file:
        names = file.attrs["layer_names"]
        del file.attrs["layer_names"]
        file.attrs["layer_names0"], file.attrs["layer_names1"] = names[:5], names[5:]
    model = tiny()
    load(model, "tiny", str(path), seed=0)
    assert_same(model.get_weights(), source.get_weights())


def test_random_starts_from_the_seed_whatever_was_there():
    model = trained()
    used = load(model, "tiny", "random", seed=6)
    assert_same(model.get_weights(), tiny(seed=6).get_weights())
    assert used == WeightsUsed("random", "seed 6", None)
    assert used.label == "random"


def failing(model: tf.keras.Model, name: str, path: object) -> str:
    """The message of the error, which must be one line and must leave the model alone."""
    before = model.get_weights()
    with pytest.raises(WeightsError) as caught:
        load(model, name, str(path), seed=5)
    assert_same(model.get_weights(), before)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def resnet18() -> tf.keras.Model:
    return build("resnet18", input_shape=(32, 32, 3), classes=3)


@pytest.mark.parametrize("save", FORMATS)
def test_another_architecture_is_refused(save, tmp_path, resnet18):
    path = tmp_path / "resnet.h5"
    save(resnet18, path)
    message = failing(tiny(), "tiny", path)
    assert str(path) in message and "not the weights of tiny" in message

    path = tmp_path / "tiny.h5"
    save(tiny(), path)
    message = failing(resnet18, "resnet18", path)
    assert str(path) in message and "not the weights of resnet18" in message


def test_a_longer_network_with_the_same_beginning_is_refused(tmp_path):
    path, model = tmp_path / "longer.h5", tiny()
    arrays = [*base_of(model).get_weights(), np.zeros((3, 3, 32, 4), np.float32)]
    with path.open("wb") as file:
        np.savez(file, **{f"{index:04d}": array for index, array in enumerate(arrays)})
    assert "1 arrays more than its backbone's 15" in failing(model, "tiny", path)


def test_missing_and_foreign_files(tmp_path):
    assert "imagnet: no such file; --weights takes imagenet, random" in failing(tiny(), "tiny", "imagnet")
    assert f"{tmp_path}: is a folder" in failing(tiny(), "tiny", tmp_path)

    text = tmp_path / "text.h5"
    text.write_text("not weights")
    assert f"{text}: neither HDF5 (.h5) nor NumPy (.npz)" in failing(tiny(), "tiny", text)

    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = np.zeros(3)
    assert "not one of Keras weights" in failing(tiny(), "tiny", tmp_path / "other.h5")

    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    assert "not a list of weights" in failing(tiny(), "tiny", tmp_path / "other.npz")

    broken = trained()
    broken.layers[-1].bias.assign([1.0, np.nan, 2.0])
    save_npz(broken, tmp_path / "nan.npz")
    assert "not finite" in failing(tiny(), "tiny", tmp_path / "nan.npz")


@pytest.mark.parametrize("save", FORMATS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused(save, share, tmp_path):
    path = tmp_path / "cut.h5"
    save(trained(), path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert str(path) in failing(tiny(), "tiny", path)


def test_a_damaged_npz_is_refused(tmp_path):
    path = tmp_path / "damaged.npz"
    save_npz(trained(), path)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    assert str(path) in failing(tiny(), "tiny", path)


def test_npz_round_trip(tmp_path):
    source, model = trained(), tiny()
    save_npz(source, tmp_path / "w.npz")
    load_npz(model, tmp_path / "w.npz")
    assert_same(model.get_weights(), source.get_weights())
    assert [file.name for file in tmp_path.iterdir()] == ["w.npz"]


def test_load_npz_wants_every_array_to_fit(tmp_path):
    path = tmp_path / "w.npz"
    save_npz(tiny(classes=5), path)
    with pytest.raises(WeightsError, match=r"\(32, 5\) where classifier/kernel:0 is \(32, 3\)"):
        load_npz(tiny(), path)
    save_npz(base_of(tiny()), path)
    with pytest.raises(WeightsError, match="15 arrays; tiny expects 17"):
        load_npz(tiny(), path)
    with pytest.raises(WeightsError, match=r"none\.npz: no such file"):
        load_npz(tiny(), tmp_path / "none.npz")
    path.write_bytes(b"PK")
    with pytest.raises(WeightsError, match="neither HDF5"):
        load_npz(tiny(), path)


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    path, old = tmp_path / "w.npz", trained()
    save_npz(old, path)

    def half(file, **arrays):
        file.write(b"PK half")
        raise OSError("disk full")

    monkeypatch.setattr(module.np, "savez", half)
    with pytest.raises(OSError, match="disk full"):
        save_npz(tiny(), path)
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == ["w.npz"]
    model = tiny()
    load_npz(model, path)
    assert_same(model.get_weights(), old.get_weights())


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty home, and downloads that must be replaced before they are used."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(downloads, "from_url", lambda *arguments: pytest.fail("went to the network"))
    monkeypatch.setattr(downloads, "from_wheel", lambda *arguments: pytest.fail("went to the index"))
    return tmp_path


@pytest.fixture(scope="module")
def mobilenet() -> tf.keras.Model:
    return build("mobilenetv2", input_shape=(32, 32, 3), classes=3)


def test_imagenet_comes_from_the_cache_of_keras(home, mobilenet):
    path = home / ".keras" / "models" / IMAGENET["mobilenetv2"].file
    path.parent.mkdir(parents=True)
    theirs = tf.keras.applications.MobileNetV2(include_top=False, weights=None, input_shape=(96, 96, 3))
    save_h5(theirs, path)
    model = mobilenet
    used = load(model, "mobilenetv2", "imagenet", seed=0)
    assert_same(base_of(model).get_weights(), theirs.get_weights())
    assert (used.kind, used.source, used.part, used.label) == ("imagenet", str(path), "backbone", "imagenet")
    assert used.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()

    path.write_bytes(path.read_bytes()[:1000])
    assert "delete that file to download it again" in failing(model, "mobilenetv2", "imagenet")


@pytest.mark.parametrize("name", ["tiny", "resnet18"])
def test_networks_keras_has_no_imagenet_weights_for(name, home):
    message = failing(tiny(), name, "imagenet")
    assert message.startswith(f"{name}: no source of ImageNet weights") and "--weights random" in message


@pytest.mark.skipif(not REAL, reason="TFFAPPS_REAL_WEIGHTS names no folder")
def test_real_imagenet_weights_give_the_features_keras_gives(tmp_path):
    path = Path(REAL or "") / "mobilenet_v2_imagenet_notop.h5"
    model = build("mobilenetv2", input_shape=(64, 64, 3), classes=3)
    used = load(model, "mobilenetv2", str(path), seed=0)
    assert (used.part, used.label) == ("backbone", "file:mobilenet_v2_imagenet_notop.h5")

    theirs = tf.keras.applications.MobileNetV2(include_top=False, weights=None, input_shape=(64, 64, 3))
    theirs.load_weights(shutil.copy(path, tmp_path / "theirs.weights.h5"))
    assert_same(base_of(model).get_weights(), theirs.get_weights())
    images = np.random.default_rng(0).random((2, 64, 64, 3), dtype=np.float32)
    expected = theirs(tf.keras.applications.mobilenet_v2.preprocess_input(images * 255))
    np.testing.assert_allclose(base_of(model)(images), expected, atol=1e-3)
