"""InceptionV3's features: those Keras gives, weights from files, and random weights that are of use."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from models import downloads
from models.inception import build
from models.weights import WeightsError


def images(count: int, side: int, seed: int = 0) -> np.ndarray:
    """Smooth ones: three sines for each channel."""
    generator = np.random.default_rng(seed)
    grid = np.indices((side, side)) / side  # (2, side, side)
    waves = generator.uniform(-8, 8, (count, 3, 3, 2))  # image, channel, wave, direction
    phases = generator.uniform(0, 6, (count, 3, 3, 1, 1))
    values = np.sin(np.einsum("icwd,dyx->icwyx", waves, grid) + phases).mean(axis=2)
    return (0.5 + 0.4 * values).transpose(0, 2, 3, 1).astype(np.float32)


@pytest.fixture(scope="module")
def network() -> tf.keras.Model:
    return build(size=75)[0]


@pytest.fixture(scope="module")
def trained() -> tf.keras.Model:
    """Keras's own network, none of whose weights is an initial value."""
    model = tf.keras.applications.InceptionV3(weights=None, input_shape=(299, 299, 3))
    generator = np.random.default_rng(0)
    for variable in model.weights:
        variable.assign(variable * 1.4 + 0.01 * generator.random(variable.shape))
    return model


@pytest.mark.parametrize("top", [True, False])
def test_a_file_gives_the_features_keras_gives(top, trained, tmp_path):
    whole = tf.keras.Model(trained.input, trained.get_layer("mixed10").output)
    path = tmp_path / "inception.h5"
    (trained if top else whole).save_weights(str(path), save_format="h5")
    model, label, sha = build(str(path), size=299)
    assert (label, sha) == ("file:inception.h5", hashlib.sha256(path.read_bytes()).hexdigest())
    pictures = images(2, 299)
    scaled = tf.keras.applications.inception_v3.preprocess_input(pictures * 255)
    expected = whole(scaled, training=False).numpy().mean(axis=(1, 2))
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(model(pictures), expected, rtol=1e-3, atol=1e-5 * np.ptp(expected))


def test_images_of_any_size_are_resized_inside(network):
    small = images(3, 40)
    resized = tf.image.resize(small, (75, 75), method="bilinear")
    np.testing.assert_allclose(network(small), network(resized), rtol=1e-3, atol=1e-4)
    assert network(small).shape == (3, 2048)


def test_random_features_tell_images_apart(network):
    first, second = network(images(8, 75)).numpy(), network(images(8, 75, seed=1)).numpy()
    assert np.isfinite(first).all() and 0.05 < first.std(axis=0).mean() < 5 and np.abs(first).max() < 100
    distances = np.linalg.norm(np.concatenate([first, second])[:, None] - np.concatenate([first, second]), axis=-1)
    assert distances[~np.eye(16, dtype=bool)].min() > 1


def test_random_features_grow_apart_with_noise(network):
    pictures = images(8, 75)
    noise = np.random.default_rng(1).standard_normal(pictures.shape).astype(np.float32)
    clean = network(pictures).numpy()
    gaps = [np.linalg.norm(network(pictures + share * noise) - clean, axis=1).mean() for share in (0.02, 0.1, 0.4)]
    assert 0 < gaps[0] < gaps[1] < gaps[2] < 1e4


def test_random_weights_depend_on_the_seed_alone(network):
    tf.keras.utils.set_random_seed(5)
    again, label, sha = build(size=75)
    assert (label, sha) == ("random", None)
    for ours, theirs in zip(again.get_weights(), network.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    other = build(size=75, seed=1)[0]
    assert np.abs(other(images(2, 75)) - network(images(2, 75))).max() > 0.1


def test_nothing_in_it_is_trained(network):
    pictures = images(4, 75)
    before = network(pictures).numpy()
    network(pictures, training=True)
    assert not network.trainable_weights
    np.testing.assert_array_equal(network(pictures), before)


def test_imagenet_that_cannot_be_had(tmp_path, monkeypatch):
    def unreachable(url):
        raise downloads.DownloadError("cannot be reached")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(downloads, "open_url", unreachable)
    with pytest.raises(WeightsError, match="inceptionv3: its ImageNet weights could not be had"):
        build("imagenet", size=75)


def test_files_that_do_not_fit_are_refused(network, tmp_path):
    other = tmp_path / "other.h5"
    tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,))]).save_weights(str(other), save_format="h5")
    with pytest.raises(WeightsError, match=r"other\.h5: not the weights of inceptionv3"):
        build(str(other), size=75)
    short = tmp_path / "short.npz"
    with short.open("wb") as file:
        np.savez(file, **{f"{index:04d}": array for index, array in enumerate(network.get_weights()[:-1])})
    with pytest.raises(WeightsError, match=f"{len(network.weights) - 1} arrays where it has {len(network.weights)}"):
        build(str(short), size=75)
    with pytest.raises(WeightsError, match="no such file"):
        build(str(tmp_path / "none.h5"), size=75)


def test_images_too_small_are_refused():
    with pytest.raises(ValueError, match="at least 75x75"):
        build(size=74)
