"""Changes to an image and to its label alike, as `augment_both` of `tffapps.data.pipeline`: for masks of micrographs.

A micrograph has no upper side: it may be flipped and turned by right angles. With `light` its brightness, contrast and
gamma vary and half of the images are blurred a little, which the label does not show. Pure TensorFlow, the seed alone
decides. An image that is not square is turned by half turns alone. At a site all this is part of a pipeline, where its
gate lets in neither convolutions nor assertions: hence transposing and sums of shifted images.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

BRIGHTNESS = 0.15  # added or taken, at most
CONTRAST = (0.7, 1.4)  # factor for the distance from the mean
GAMMA = (0.7, 1.4)  # power; both ranges are drawn evenly in their logarithms
BLUR = 1.0  # pixels: the most that a Gaussian has for a standard deviation
_TAPS = 3  # on each side of a pixel


@dataclasses.dataclass(frozen=True)
class Turns:
    """Two that are equal share what is traced of them."""

    light: bool = False

    def __call__(self, image: tf.Tensor, label: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(float32 (height, width, channels) in [0, 1], (height, width), int32[2]) -> the same shapes."""
        shape, shade = tf.unstack(tf.random.experimental.stateless_split(seed, 2, alg="philox"))
        across, down, over = tf.unstack(tf.random.stateless_uniform((3,), shape, alg="philox") < 0.5)
        square = image.shape[0] == image.shape[1]

        def turned(picture: tf.Tensor) -> tf.Tensor:
            picture = tf.where(across, picture[:, ::-1], picture)
            picture = tf.where(down, picture[::-1], picture)
            return tf.where(over, tf.transpose(picture, [1, 0, 2]), picture) if square else picture

        moved, mask = turned(image), turned(label[..., tf.newaxis])[..., 0]
        return _lit(moved, shade) if self.light else moved, mask


def _lit(image: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    drawn = tf.unstack(tf.random.stateless_uniform((5,), seed, alg="philox"))
    brightness, contrast, gamma, sigma, whether = drawn
    mean = tf.reduce_mean(image)
    image = mean + _between(CONTRAST, contrast) * (image - mean) + BRIGHTNESS * (2 * brightness - 1)
    image = tf.clip_by_value(image, 1e-6, 1.0) ** _between(GAMMA, gamma)
    return tf.where(whether < 0.5, _blurred(image, tf.maximum(BLUR * sigma, 1e-2)), image)


def _between(limits: tuple[float, float], share: tf.Tensor) -> tf.Tensor:
    low, high = limits
    return low * (high / low) ** share


def _blurred(image: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
    taps = tf.exp(-(tf.range(-_TAPS, _TAPS + 1, dtype=tf.float32) ** 2) / (2 * sigma**2))
    taps /= tf.reduce_sum(taps)
    padded = tf.pad(image, [[_TAPS, _TAPS], [_TAPS, _TAPS], [0, 0]], "SYMMETRIC")
    height, width = image.shape[:2]
    rows = tf.add_n([taps[tap] * padded[tap : tap + height] for tap in range(2 * _TAPS + 1)])
    return tf.add_n([taps[tap] * rows[:, tap : tap + width] for tap in range(2 * _TAPS + 1)])
