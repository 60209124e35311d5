"""FID's Inception without its weights: its size, its names, and the three things in which it is not Keras's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from models import inception, inception_fid
from models.stored import Stored
from models.weights import WeightsError


@pytest.fixture(scope="module")
def network() -> tf.keras.Model:
    images = tf.keras.Input((None, None, 3))
    return tf.keras.Model(images, inception_fid._features(images, 75), name="inception_fid")


def numbered(network: tf.keras.Model) -> dict[str, Stored]:
    """Arrays under the file's names, each full of its own number."""
    state = {}
    for layer in network.layers:
        parts = ("weight",) if isinstance(layer, tf.keras.layers.Conv2D) else ("beta", "mean", "var")
        for part, variable in zip(parts, layer.weights):
            name = f"net.layers.{layer.name.replace('/norm', '').replace('/', '.')}.{part}"
            state[name] = stored(tuple(variable.shape), len(state) + 1)
    return state


def stored(shape: tuple[int, ...], value: float) -> Stored:
    return Stored(shape, "float32", lambda: np.full(shape, value, np.float32))


def test_it_is_as_large_as_published(network):
    assert network.count_params() == 21_802_784  # InceptionV3's, without its last layer
    assert len(network.weights) == 376 and network.output_shape == (None, 2048)


def test_every_array_goes_where_its_name_says(network):
    state = numbered(network)
    names = list(state)
    for name in (
        "net.layers.conv_4.beta", "net.layers.mixed.tower_1.conv_2.weight", "net.layers.mixed_8.tower.conv_1.var",
        "net.layers.mixed_10.tower_1_mixed_conv_1.mean", "net.layers.mixed_3.conv.weight",
    ):  # fmt: skip
        assert name in names
    inception_fid._fill(network, Path("f.npz"), state, torch_order=False)
    kernel = network.get_layer("mixed_9/tower_mixed_conv")
    assert (
        kernel.kernel_size == (1, 3)
        and kernel.kernel[0, 0, 0, 0] == names.index("net.layers.mixed_9.tower_mixed_conv.weight") + 1
    )
    norm = network.get_layer("mixed_4/tower_1/conv_3/norm")
    first = names.index("net.layers.mixed_4.tower_1.conv_3.beta") + 1
    assert [float(v[0]) for v in (norm.beta, norm.moving_mean, norm.moving_variance)] == [first, first + 1, first + 2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("net.layers.conv.var"), r"net\.layers\.conv\.var is missing"),
        (lambda state: state.update(other=stored((1,), 0)), "it has no other"),
        (lambda state: state.update({"net.layers.conv.var": stored((31,), 0)}), r"\(31,\), \(32,\) is expected"),
        (lambda state: state.update({"net.layers.conv.var": stored((32,), np.inf)}), "not finite"),
    ],
)
def test_files_that_do_not_fit(change, words, network):
    state = numbered(network)
    change(state)
    with pytest.raises(WeightsError, match=words):
        inception_fid._fill(network, Path("f.npz"), state, torch_order=False)


def test_the_last_block_takes_a_maximum(network):
    kinds = {name: type(network.get_layer(f"{name}/pool")) for name in ("mixed_2", "mixed_7", "mixed_9", "mixed_10")}
    mean, maximum = tf.keras.layers.AveragePooling2D, tf.keras.layers.MaxPooling2D
    assert kinds == {"mixed_2": mean, "mixed_7": mean, "mixed_9": mean, "mixed_10": maximum}


def test_means_leave_out_what_lies_beyond_the_border():
    pooled = inception_fid._pooled(tf.ones((1, 4, 4, 1)), "pool")
    np.testing.assert_array_equal(pooled, np.ones((1, 4, 4, 1)))  # zeros counted in would give 4/9 at corners


def test_resizing_by_hand():
    """Two pixels to four: places 0, 0.5, 1, 1.5 of the old; half-pixel centres would give -0.25, 0.25, 0.75, 1.25."""
    row = tf.constant([[0.0, 8.0], [0.0, 8.0]])[None, ..., None]
    resized = inception_fid.ResizeCorners(4)(row)
    np.testing.assert_allclose(resized[0, 0, :, 0], [0, 4, 8, 8])


def test_pixels_are_scaled_as_published(network):
    scale = network.get_layer("rescale")
    pixels = tf.constant([0.0, 128 / 255, 1.0])
    np.testing.assert_allclose(scale(pixels), [-1, 0, 127 / 128], atol=1e-6)


def test_a_file_is_told_by_its_names(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, **{"net.layers.conv.weight": np.zeros((3, 3, 3, 32), np.float16)})
    assert inception_fid.holds(path)
    with pytest.raises(
        WeightsError, match=r"f\.npz: not the weights of inception_fid; net\.layers\.conv\.beta is miss"
    ):
        inception.build(str(path), size=75)
    np.savez(path, **{"0000": np.zeros(3)})
    assert not inception_fid.holds(path) and not inception_fid.holds(tmp_path / "none")
