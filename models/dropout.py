"""Dropout whose masks follow from the images alone.

Keras's own draws from a generator that no run stores: a run that was killed and goes on would end in other numbers, and
so would another engine. Here the generator's seed is made of the batch's images, in whole numbers, so that it is the
same wherever they are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_LEVELS = 65535.0  # that a pixel in [0,1] is told apart in


class SeedOfImages(tf.keras.layers.Layer):
    """A batch of images → one whole number. The same images in another order give another."""

    def call(self, images: tf.Tensor) -> tf.Tensor:
        levels = tf.cast(tf.round(images * _LEVELS), tf.int64)
        sums = tf.reduce_sum(levels, axis=range(1, images.shape.rank))
        return tf.reduce_sum(sums * tf.range(1, tf.shape(sums, tf.int64)[0] + 1))


class ImageDropout(tf.keras.layers.Layer):
    """`[x, seed]` → x, in training with zeros at random places and the rest scaled up.

    Args:
      rate: the share that becomes zero.
      shared: axes along which a mask is the same.
      number: of the layer in its network: each has masks of its own.
    """

    def __init__(self, rate: float, shared: Sequence[int], number: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.rate, self.shared, self.number = rate, tuple(shared), number

    def call(self, inputs: Sequence[tf.Tensor], training: bool | None = None) -> tf.Tensor:
        x, seed = inputs
        if not training or not self.rate:
            return x
        shape = [1 if axis in self.shared else tf.shape(x)[axis] for axis in range(x.shape.rank)]
        drawn = tf.random.stateless_uniform(shape, tf.stack([seed, tf.constant(self.number, tf.int64)]))
        return x * tf.cast(drawn >= self.rate, x.dtype) / (1.0 - self.rate)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape[0]


def in_place_of(layer: tf.keras.layers.Layer, number: int) -> ImageDropout | None:
    """What takes the place of one of Keras's dropout layers; None for any other layer."""
    kinds = tf.keras.layers
    if isinstance(layer, (kinds.SpatialDropout1D, kinds.SpatialDropout2D)):
        return ImageDropout(layer.rate, (1, 2)[: layer.input_spec.ndim - 2], number, name=layer.name)
    if type(layer) is kinds.Dropout and layer.noise_shape is None:
        return ImageDropout(layer.rate, (), number, name=layer.name)
    return None
