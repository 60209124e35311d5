"""Adaptive instance normalisation (Huang and Belongie 2017): an image's style is its activations' moments.

`adain` is Eq. 8: each channel of an image's activations is given another mean and deviation. `decoder` turns the
activations of VGG-19's relu4_1 (`models.vgg`) into an image again: the encoder's layers in reverse, pooling replaced
by nearest up-sampling, borders reflected instead of filled with zeros (Section 6).

Deviations: the decoder ends in a sigmoid, so that every output is an image in [0, 1]; and it first divides what it gets
by a constant, `scale_of` the encoder. The authors' VGG was rescaled to activations of about 1; those of Keras's are far
larger, and a new decoder's sigmoid would start out saturated. The encoder's borders stay zeros, as it was trained.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from models.initialise import seed_weights
from models.vgg import CONVOLUTIONS, WIDTH, WIDTHS

layers = tf.keras.layers

EPSILON = 1e-5  # added to variances: many channels of a ReLU are zero everywhere
LAYER = "relu4_1"  # where styles are measured
SCALE = 8  # a side of the image for one of the activations
_BLOCKS = 3  # whole ones before LAYER


def decoder(width: int = WIDTH, seed: int = 0, scale: float = 1.0) -> tf.keras.Model:
    """Activations of LAYER (n, height, width, 8 · `width`) to images (n, 8 · height, 8 · width, 3) in [0,1].

    `width` is the encoder's, `scale` that of its activations. The image needs at least 16 × 16 pixels.
    """
    activations = x = layers.Input((None, None, width * WIDTHS[_BLOCKS]), name="activations")
    x = layers.Rescaling(1 / scale, name="rescale")(x)
    x = _conv(x, width * WIDTHS[_BLOCKS - 1], name="conv4_1")
    for block in range(_BLOCKS, 0, -1):
        x = layers.UpSampling2D(2, interpolation="nearest", name=f"up{block}")(x)
        for number in range(CONVOLUTIONS[block - 1], 1, -1):
            x = _conv(x, width * WIDTHS[block - 1], name=f"conv{block}_{number}")
        if block > 1:
            x = _conv(x, width * WIDTHS[block - 2], name=f"conv{block}_1")
    x = _conv(x, 3, name="conv1_1", activation="sigmoid", initializer="glorot_uniform")
    model = tf.keras.Model(activations, x, name="adain_decoder")
    seed_weights(model, seed)
    return model


def scale_of(encoder: tf.keras.Model) -> float:
    """How large an encoder's activations are: their root mean square on a fixed pattern of coloured patches."""
    generator = np.random.default_rng(0)
    pattern = sum(generator.random((1, side, side, 3)).repeat(64 // side, 1).repeat(64 // side, 2) for side in (4, 16))
    return float(tf.sqrt(tf.reduce_mean(tf.square(encoder(tf.constant(pattern / 2, tf.float32))))))


def moments(features: tf.Tensor, eps: float = EPSILON) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and deviation of each image's channels over its places: (n, height, width, c) to twice (n, c)."""
    mean, variance = tf.nn.moments(features, axes=[1, 2])
    return mean, tf.sqrt(variance + eps)


def adain(features: tf.Tensor, mean: tf.Tensor, std: tf.Tensor, eps: float = EPSILON) -> tf.Tensor:
    """The features with these moments (n, c) instead of their own."""
    own_mean, own_std = moments(features, eps)
    return (features - own_mean[:, None, None]) * (std / own_std)[:, None, None] + mean[:, None, None]


class Reflect(tf.keras.layers.Layer):
    """One more row and column on every side: the picture mirrored at its border."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")


def _conv(x: Any, filters: int, name: str, activation: str = "relu", initializer: str = "he_normal") -> Any:
    x = Reflect(name=f"{name}_reflect")(x)
    return layers.Conv2D(filters, 3, activation=activation, kernel_initializer=initializer, name=name)(x)
