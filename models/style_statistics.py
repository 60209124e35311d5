"""The style of an image as statistics of a classifier's feature maps: what is where does not count, how it looks does.

Of the map that each stage of the network ends with: the mean and the standard deviation of every channel (Huang and
Belongie, 2017), and a summary of its Gram matrix (Gatys et al., 2016), that of a few fixed random mixtures of channels:
the whole of it would be thousands of numbers a stage. Each of these blocks has length 1, so that no stage drowns the
others. It trains nothing, and works with any network that `models.stages` knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from models.stages import outputs, stages_of

MIXTURES = 16  # of channels, for a Gram matrix of 136 different numbers
_LEAST = 1e-12  # squared length of a block below which it has no direction
_STEADY = 1e-6  # variance added, so that the deviation of a constant channel has a gradient


def style_statistics(model: tf.keras.Model) -> tf.keras.Model:
    """Images → (n, d), sharing the classifier's layers."""
    maps = outputs(model, stages_of(model))
    blocks = [block for place, features in enumerate(maps) for block in statistics_of(features, place)]
    return tf.keras.Model(model.input, tf.concat(blocks, axis=-1), name=f"{model.name}_style")


def statistics_of(features: Any, place: int) -> list[Any]:
    """Channel means, channel deviations and the Gram summary of a map (n, height, width, c), each of length 1.

    `place` among the stages chooses the mixtures of its Gram summary.
    """
    features = tf.cast(features, tf.float32)
    mean = tf.reduce_mean(features, axis=[1, 2])  # (n, c)
    variance = tf.reduce_mean(tf.square(features), axis=[1, 2]) - tf.square(mean)
    deviation = tf.sqrt(tf.nn.relu(variance) + _STEADY)
    mixed = tf.tensordot(features, mixtures(features.shape[-1], place), axes=1)  # (n, height, width, k)
    gram = tf.einsum("nhwi,nhwj->nij", mixed, mixed)
    size = gram.shape[-1]
    upper = np.flatnonzero(np.triu(np.ones([size, size])))
    summary = tf.gather(tf.reshape(gram, [-1, size * size]), upper, axis=1)
    return [tf.math.l2_normalize(block, axis=-1, epsilon=_LEAST) for block in (mean, deviation, summary)]


def mixtures(channels: int, place: int) -> np.ndarray:
    """(channels, k): the same in every process, orthonormal; every channel itself where there are few."""
    if channels <= MIXTURES:
        return np.eye(channels, dtype=np.float32)
    drawn = np.random.default_rng([place, channels]).normal(size=(channels, MIXTURES))
    return np.linalg.qr(drawn)[0].astype(np.float32)
