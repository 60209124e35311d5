"""Random erasing (Zhong et al. 2017), as FedTransfer augments with: a rectangle of noise over part of an image.

`Erasing()` is an `augment` of `tffapps.data.pipeline`: pure TensorFlow, the seed alone decides. FedTransfer's paper
names the method and no values, so these are those of its authors. Labels stay as they are: the network shall say where
boundaries run behind the noise, too. A rectangle that does not fit is cut to the image; the authors draw another.
"""

from __future__ import annotations

import dataclasses
import math

import tensorflow as tf

AREA = (0.02, 0.4)  # of the image
ASPECT = 0.3  # height to width, from this to 1 over it


@dataclasses.dataclass(frozen=True)
class Erasing:
    """Two that are equal share what is traced of them."""

    probability: float = 0.5

    def __call__(self, image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """(float32 (height, width, channels) in [0, 1], int32[2]) -> the same shape."""
        shape, noise = tf.unstack(tf.random.experimental.stateless_split(seed, 2, alg="philox"))
        chance, area, aspect, down, right = tf.unstack(tf.random.stateless_uniform((5,), shape, alg="philox"))
        size = tf.cast(tf.shape(image)[:2], tf.float32)
        area = (AREA[0] + (AREA[1] - AREA[0]) * area) * size[0] * size[1]
        aspect = tf.exp((2 * aspect - 1) * math.log(1 / ASPECT))
        sides = tf.minimum(tf.round(tf.stack([tf.sqrt(area * aspect), tf.sqrt(area / aspect)])), size)
        first = tf.floor(tf.stack([down, right]) * (size - sides + 1))
        rows, columns = (
            (place >= first[axis]) & (place < first[axis] + sides[axis])
            for axis, place in enumerate((tf.range(size[0]), tf.range(size[1])))
        )
        inside = rows[:, None, None] & columns[None, :, None] & (chance < self.probability)
        return tf.where(inside, tf.random.stateless_uniform(tf.shape(image), noise, alg="philox"), image)
