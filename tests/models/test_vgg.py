"""VGG-19: its size, its names, Keras's weights in it, and files that do not fit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from models import downloads, vgg
from models.weight_sources import IMAGENET
from models.weights import WeightsError, save_npz

VGG19 = tf.keras.applications.vgg19


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).random((2, 64, 64, 3), dtype=np.float32)


@pytest.fixture(scope="module")
def of_keras(tmp_path_factory):
    """Keras's own VGG-19 with weights all of which are told apart, and a file of them."""
    model = VGG19.VGG19(weights=None, include_top=False)
    generator = np.random.default_rng(1)
    for layer in model.layers:
        if layer.weights:
            kernel, bias = layer.get_weights()
            layer.set_weights([kernel, generator.normal(0, 1, bias.shape)])
    path = tmp_path_factory.mktemp("keras") / "vgg19.h5"
    model.save_weights(str(path), save_format="h5")
    return model, path


@pytest.mark.parametrize(("upto", "count"), [("relu4_1", 3_505_728), ("relu5_4", 20_024_384)])
def test_it_is_as_large_as_vgg19(upto, count):
    assert vgg.build(upto).count_params() == count


def test_names_and_shapes():
    model = vgg.build("relu5_4", width=4)
    named = [layer.name for layer in model.layers]
    assert named[2:8] == ["conv1_1", "relu1_1", "conv1_2", "relu1_2", "pool1", "conv2_1"]
    assert named[-1] == "relu5_4" and sum(name.startswith("conv") for name in named) == 16
    assert [model.get_layer(f"conv{block}_1").filters for block in range(1, 6)] == [4, 8, 16, 32, 32]
    assert vgg.build(width=4)(tf.zeros((1, 32, 48, 3))).shape == (1, 4, 6, 32)
    assert vgg.build("pool2", width=4)(tf.zeros((1, 32, 48, 3))).shape == (1, 8, 12, 8)


@pytest.mark.parametrize(("arguments", "words"), [({"upto": "relu6_1"}, "relu6_1"), ({"width": 0}, "width 0")])
def test_impossible_networks(arguments, words):
    with pytest.raises(ValueError, match=words):
        vgg.build(**arguments)


def test_a_file_of_keras_gives_the_activations_keras_gives(images, of_keras):
    theirs, path = of_keras
    model = vgg.build("relu4_1")
    used = vgg.load(model, str(path))
    assert used.label == "file:vgg19.h5" and used.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    until = tf.keras.Model(theirs.input, theirs.get_layer("block4_conv1").output)
    expected = until(VGG19.preprocess_input(255 * images)).numpy()
    assert expected.std() > 0.1  # else it would prove little
    np.testing.assert_allclose(model(images), expected, rtol=1e-3, atol=1e-4 * expected.max())


def unreachable(url):
    raise downloads.DownloadError("cannot be reached")


def test_imagenet_comes_from_the_cache_of_keras(images, of_keras, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(downloads, "open_url", unreachable)
    model = vgg.build("relu1_2")
    with pytest.raises(WeightsError, match=r"cannot be reached.*at .*notop\.h5"):
        vgg.load(model, "imagenet")
    cached = tmp_path / ".keras" / "models" / IMAGENET["vgg19"].file
    cached.parent.mkdir(parents=True)
    cached.symlink_to(of_keras[1])
    assert vgg.load(model, "imagenet").label == "imagenet"
    np.testing.assert_array_equal(model.get_weights()[0], of_keras[0].get_weights()[0])


def test_imagenet_is_for_the_full_width_only():
    with pytest.raises(WeightsError, match="width 64, this network has 16"):
        vgg.load(vgg.build("relu1_1", width=16), "imagenet")


@pytest.mark.parametrize("save", [lambda model, path: model.save_weights(str(path), save_format="h5"), save_npz])
def test_of_a_longer_file_the_first_layers_are_taken(save, tmp_path):
    longer, model = vgg.build("relu5_1", width=4, seed=1), vgg.build("relu3_2", width=4, seed=2)
    save(longer, tmp_path / "longer")
    vgg.load(model, str(tmp_path / "longer"))
    for ours, theirs in zip(model.get_weights(), longer.get_weights()):
        np.testing.assert_array_equal(ours, theirs)


def unlike(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.h5"
    if kind == "wider":
        vgg.build("relu3_1", width=6).save_weights(str(path), save_format="h5")
    elif kind == "shorter":
        vgg.build("relu2_1", width=4).save_weights(str(path), save_format="h5")
    elif kind == "text":
        path.write_text("hello")
    return path


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("wider", r"\(3, 3, 3, 6\) where conv1_1/kernel:0 is \(3, 3, 3, 4\)"),
        ("shorter", "6 arrays where it has 10"),
        ("text", "neither HDF5"),
        ("missing", "no such file"),
    ],
)
def test_wrong_files_are_refused_and_change_nothing(kind, words, tmp_path):
    path, model = unlike(tmp_path, kind), vgg.build("relu3_1", width=4)
    before = model(tf.ones((1, 8, 8, 3))).numpy()
    with pytest.raises(WeightsError, match=words) as caught:
        vgg.load(model, str(path), seed=5)
    assert str(caught.value).startswith(str(path))
    np.testing.assert_array_equal(model(tf.ones((1, 8, 8, 3))), before)


def test_preprocessing_goes_with_the_weights(tmp_path):
    path, model = tmp_path / "own.h5", vgg.build("relu1_1", width=4)
    model.save_weights(str(path), save_format="h5")
    preprocess = model.get_layer("preprocess")
    colour = tf.constant([0.0, 0.5, 1.0])[None, None, None]
    np.testing.assert_allclose(preprocess(colour)[0, 0, 0], [-1, 0, 1])
    vgg.load(model, str(path))
    np.testing.assert_allclose(preprocess(colour)[0, 0, 0], [255 - 103.939, 127.5 - 116.779, -123.68], rtol=1e-5)
    vgg.load(model, "random")
    np.testing.assert_allclose(preprocess(colour)[0, 0, 0], [-1, 0, 1])


def test_random_weights_depend_on_the_seed_alone():
    model, other = vgg.build("relu2_1", width=4, seed=3), vgg.build("relu2_1", width=4, seed=0)
    assert not np.array_equal(model.get_weights()[0], other.get_weights()[0])
    assert vgg.load(other, "random", 3).sha256 is None
    for first, second in zip(model.get_weights(), other.get_weights()):
        np.testing.assert_array_equal(first, second)


def test_random_activations_stay_near_unit_scale(images):
    names = ["relu1_1", "relu2_1", "relu3_1", "relu4_1", "relu5_4"]
    for level in vgg.taps(vgg.build("relu5_4", width=16), names)(images):
        assert 0.1 < np.sqrt(np.mean(np.square(level))) < 3


def test_taps_are_the_layers_activations():
    model = vgg.build("relu3_1", width=4)
    first, last = vgg.taps(model, ["relu1_1", "relu3_1"])(tf.ones((1, 16, 16, 3)))
    assert first.shape == (1, 16, 16, 4)
    np.testing.assert_array_equal(last, model(tf.ones((1, 16, 16, 3))))


def test_a_frozen_copy_gives_the_same_and_has_no_weights(images, tmp_path):
    model = vgg.build("relu3_1", width=4, seed=1)
    model.save_weights(str(tmp_path / "own.h5"), save_format="h5")
    vgg.load(model, str(tmp_path / "own.h5"))  # so that its preprocessing has to be copied as well
    copy, before = vgg.frozen(model), model(images).numpy()
    vgg.load(model, "random", 2)
    np.testing.assert_allclose(copy(images), before, rtol=1e-5, atol=1e-4)
    assert copy.weights == []
