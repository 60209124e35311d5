"""The Inception of 2015-12-05: the network that published FID and KID values are of (Heusel et al. 2017).

It is close to Keras's InceptionV3, and gives other features: other weights (BatchNorm without a scale), a maximum where
the last block has a mean, pictures resized as TensorFlow 1 did (corners, not centres of pixels, coincide), and
(x − 128) / 128 for pixels of 0 to 255. Means over places leave out what lies beyond the border.

Layers are called as in the network's graph (mixed_4, tower_1, conv_2). Files name arrays after them:
"net.layers.mixed_4.tower_1.conv_2.weight", and .beta, .mean, .var of the normalisation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from models.named_arrays import check_finite, take
from models.stored import Stored, WeightsError
from models.weight_files import opened_state

layers = tf.keras.layers

SIZE = 299  # pixels a side; at another, values compare with no published ones
_PREFIX = "net.layers."
_EPSILON = 1e-3
_HEAD = ("net.output.weight", "net.output.bias")  # of 1,008 classes; not used


def holds(path: Path) -> bool:
    """Whether a file is one of this network's, by its names."""
    try:
        with opened_state(path) as state:
            return f"{_PREFIX}conv.weight" in state.arrays
    except WeightsError:
        return False


def build(path: Path, size: int = SIZE) -> tuple[tf.keras.Model, str]:
    """Float32 RGB images in [0,1] of any size to (n, 2048), and the SHA-256 of the file."""
    images = layers.Input((None, None, 3), name="images")
    model = tf.keras.Model(images, _features(images, size), name="inception_fid")
    with opened_state(path) as state:
        _fill(model, path, state.arrays, state.torch_order)
    model.trainable = False
    return model, hashlib.sha256(path.read_bytes()).hexdigest()


def _fill(model: tf.keras.Model, path: Path, state: Mapping[str, Stored], torch_order: bool) -> None:
    wanted = []
    for layer in model.layers:
        parts = ("weight",) if isinstance(layer, layers.Conv2D) else ("beta", "mean", "var")
        name = layer.name.removesuffix("/norm").replace("/", ".")
        wanted += [(f"{_PREFIX}{name}.{part}", tuple(v.shape)) for part, v in zip(parts, layer.weights)]
    arrays = take(path, model.name, state, wanted, torch_order=torch_order, optional=_HEAD)
    check_finite(path, arrays)
    model.set_weights(arrays)


class ResizeCorners(tf.keras.layers.Layer):
    """Bilinear, as TensorFlow 1 did it: the pixel at (y, x) comes from (y, x) · old size / new size."""

    def __init__(self, size: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.size = size

    def call(self, images: tf.Tensor) -> tf.Tensor:
        return tf.compat.v1.image.resize_bilinear(images, (self.size, self.size), half_pixel_centers=False)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "size": self.size}


def _features(images: Any, size: int) -> Any:
    x = layers.Rescaling(255 / 128, -1.0, name="rescale")(ResizeCorners(size, name="resize")(images))
    x = _conv(x, "conv", 32, (3, 3), stride=2, padding="valid")
    x = _conv(x, "conv_1", 32, (3, 3), padding="valid")
    x = _conv(x, "conv_2", 64, (3, 3))
    x = layers.MaxPooling2D(3, strides=2, name="pool")(x)
    x = _conv(x, "conv_3", 80, (1, 1), padding="valid")
    x = _conv(x, "conv_4", 192, (3, 3), padding="valid")
    x = layers.MaxPooling2D(3, strides=2, name="pool_1")(x)
    for name, pooled in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        x = _block_35(x, name, pooled)
    x = _reduce_to_17(x, "mixed_3")
    for name, inner in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        x = _block_17(x, name, inner)
    x = _reduce_to_8(x, "mixed_8")
    x = _block_8(x, "mixed_9", layers.AveragePooling2D)
    x = _block_8(x, "mixed_10", layers.MaxPooling2D)
    return layers.GlobalAveragePooling2D(name="features")(x)


def _conv(x: Any, name: str, filters: int, kernel: tuple[int, int], stride: int = 1, padding: str = "same") -> Any:
    x = layers.Conv2D(filters, kernel, strides=stride, padding=padding, use_bias=False, name=name)(x)
    x = layers.BatchNormalization(scale=False, epsilon=_EPSILON, name=f"{name}/norm")(x)
    return layers.ReLU(name=f"{name}/relu")(x)


def _tower(x: Any, name: str, *steps: tuple[int, tuple[int, int]], stride: int = 1) -> Any:
    """Convolutions one after the other: conv, conv_1, conv_2, …; the last one has the stride."""
    for number, (filters, kernel) in enumerate(steps):
        last = number == len(steps) - 1
        place = f"{name}/conv_{number}" if number else f"{name}/conv"
        strided = last and stride > 1
        x = _conv(x, place, filters, kernel, stride if strided else 1, "valid" if strided else "same")
    return x


def _pooled(x: Any, name: str, pooling: Any = layers.AveragePooling2D) -> Any:
    return pooling(3, strides=1, padding="same", name=name)(x)  # TensorFlow's mean leaves the padding out


def _block_35(x: Any, name: str, pooled: int) -> Any:
    """35 × 35 places for 299 pixels."""
    parts = [
        _conv(x, f"{name}/conv", 64, (1, 1)),
        _tower(x, f"{name}/tower", (48, (1, 1)), (64, (5, 5))),
        _tower(x, f"{name}/tower_1", (64, (1, 1)), (96, (3, 3)), (96, (3, 3))),
        _conv(_pooled(x, f"{name}/pool"), f"{name}/tower_2/conv", pooled, (1, 1)),
    ]
    return layers.Concatenate(name=name)(parts)


def _reduce_to_17(x: Any, name: str) -> Any:
    parts = [
        _conv(x, f"{name}/conv", 384, (3, 3), stride=2, padding="valid"),
        _tower(x, f"{name}/tower", (64, (1, 1)), (96, (3, 3)), (96, (3, 3)), stride=2),
        layers.MaxPooling2D(3, strides=2, name=f"{name}/pool")(x),
    ]
    return layers.Concatenate(name=name)(parts)


def _block_17(x: Any, name: str, inner: int) -> Any:
    row, column = (1, 7), (7, 1)
    twice = [(inner, (1, 1)), (inner, column), (inner, row), (inner, column), (192, row)]
    parts = [
        _conv(x, f"{name}/conv", 192, (1, 1)),
        _tower(x, f"{name}/tower", (inner, (1, 1)), (inner, row), (192, column)),
        _tower(x, f"{name}/tower_1", *twice),
        _conv(_pooled(x, f"{name}/pool"), f"{name}/tower_2/conv", 192, (1, 1)),
    ]
    return layers.Concatenate(name=name)(parts)


def _reduce_to_8(x: Any, name: str) -> Any:
    parts = [
        _tower(x, f"{name}/tower", (192, (1, 1)), (320, (3, 3)), stride=2),
        _tower(x, f"{name}/tower_1", (192, (1, 1)), (192, (1, 7)), (192, (7, 1)), (192, (3, 3)), stride=2),
        layers.MaxPooling2D(3, strides=2, name=f"{name}/pool")(x),
    ]
    return layers.Concatenate(name=name)(parts)


def _block_8(x: Any, name: str, pooling: Any) -> Any:
    """Names are joined by _ in these two blocks."""
    first = _conv(x, f"{name}/tower_conv", 384, (1, 1))
    second = _conv(x, f"{name}/tower_1_conv", 448, (1, 1))
    second = _conv(second, f"{name}/tower_1_conv_1", 384, (3, 3))
    parts = [
        _conv(x, f"{name}/conv", 320, (1, 1)),
        _conv(first, f"{name}/tower_mixed_conv", 384, (1, 3)),
        _conv(first, f"{name}/tower_mixed_conv_1", 384, (3, 1)),
        _conv(second, f"{name}/tower_1_mixed_conv", 384, (1, 3)),
        _conv(second, f"{name}/tower_1_mixed_conv_1", 384, (3, 1)),
        _conv(_pooled(x, f"{name}/pool", pooling), f"{name}/tower_2_conv", 192, (1, 1)),
    ]
    return layers.Concatenate(name=name)(parts)
