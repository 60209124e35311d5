"""Group normalisation in BatchNorm's place: each image by itself, so clients have no statistics to disagree on."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

GROUPS = 32  # at most (Wu and He 2018)


class GroupNorm(tf.keras.layers.Layer):
    """Has the scale and shift of a BatchNorm layer, as the same variables; the BatchNorm's statistics are not used."""

    def __init__(self, norm: tf.keras.layers.BatchNormalization, **arguments: Any) -> None:
        super().__init__(**arguments)
        if norm.gamma is None or norm.beta is None:
            raise ValueError(f"layer {norm.name}: it has no scale or no shift, which group normalisation would share")
        self.gamma, self.beta, self.epsilon = norm.gamma, norm.beta, norm.epsilon
        self.groups = groups_of(int(norm.gamma.shape[0]))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.normalised(x) * self.gamma + self.beta

    def normalised(self, x: tf.Tensor) -> tf.Tensor:
        """Before scale and shift."""
        channels = self.gamma.shape[0]
        size = tf.shape(x)
        parts = tf.reshape(x, [size[0], size[1], size[2], self.groups, channels // self.groups])
        mean, variance = tf.nn.moments(parts, axes=[1, 2, 4], keepdims=True)
        parts = (parts - mean) * tf.math.rsqrt(variance + self.epsilon)
        return tf.ensure_shape(tf.reshape(parts, size), x.shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def groups_of(channels: int) -> int:
    """The most groups of equal size, of at least two channels where there are two."""
    most = max(1, min(GROUPS, channels // 2))
    return next(groups for groups in range(most, 0, -1) if channels % groups == 0)
