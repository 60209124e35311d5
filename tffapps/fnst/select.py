"""Which of a client's images of a class are its style images: the paper picks them by hand, as diverse as possible.

Here an image is described by the mean and the deviation of every channel of VGG-19's style layers, and each next one
is the farthest from those already chosen (farthest-point sampling). The first n of a longer choice are the choice of n.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf
from sklearn.preprocessing import StandardScaler

from preprocessing import gram

_IMAGES = 64  # encoded at once


def choose(statistics: Callable[[], np.ndarray], images: int, count: int, how: str, seed: int) -> np.ndarray:
    """Rows of `count` of so many images, fewer if there are not as many; `statistics` of them are asked if needed."""
    rng = np.random.default_rng(seed)
    if how == "random":
        return rng.permutation(images)[:count]
    points = StandardScaler().fit_transform(statistics())  # each column with mean 0 and deviation 1 over these images
    return farthest(points, count, int(rng.integers(images)))


def statistics(encoder: tf.keras.Model, images: np.ndarray) -> np.ndarray:
    """(n, 2 · channels of all style layers) of images (n, height, width, 3): means and deviations."""
    taps = gram.taps(encoder)
    rows = []
    for start in range(0, len(images), _IMAGES):
        levels = taps(tf.constant(images[start : start + _IMAGES], tf.float32) / 255.0)
        moments = [moment for level in levels for moment in tf.nn.moments(level, axes=[1, 2])]
        means, variances = moments[0::2], moments[1::2]
        rows.append(tf.concat([*means, *map(tf.sqrt, variances)], axis=1).numpy())
    return np.concatenate(rows)


def farthest(points: np.ndarray, count: int, first: int) -> np.ndarray:
    """Rows of `count` of the points (n, d), from `first` on each the farthest from those before it."""
    chosen = [first]
    nearest = np.linalg.norm(points - points[first], axis=1)
    while len(chosen) < min(count, len(points)):
        nearest[chosen] = -1  # equal points are chosen once each
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.array(chosen)
