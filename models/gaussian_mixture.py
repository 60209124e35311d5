"""Mixtures of Gaussians fitted to vectors by expectation maximisation: plain TensorFlow, in float64.

One component is the Gaussian of the rows' mean and covariance. More begin apart along the direction in which the rows
vary most, so that nothing is drawn and the same rows give the same mixture. How many there are is chosen by the
Bayesian information criterion: a second one has to earn its numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

STEPS = 50  # of expectation maximisation
_FLOOR = 1e-6  # of a variance, as a share of the rows' mean variance: a component cannot shrink to a point
_NOISE = 1e-2  # the same share, of a variance that is not worth another component
_TINY = 1e-12


class Mixture(NamedTuple):
    """Of `c` components; those that are not used have the weight 0."""

    weights: Any  # (c)
    means: Any  # (c, d)
    covariances: Any  # (c, d, d)


def fit(rows: tf.Tensor, most: int) -> Mixture:
    """To float64 rows (n, d), n > 0, with 1 to `most` components."""
    fitted = [_fit(rows, components) for components in range(1, most + 1)]
    criteria = tf.stack([criterion for _, criterion in fitted])
    best = tf.argmin(criteria)
    padded = [_padded(mixture, most) for mixture, _ in fitted]
    return Mixture(*(tf.gather(tf.stack(parts), best) for parts in zip(*padded)))


def draw(mixture: Mixture, count: int, generator: np.random.Generator) -> np.ndarray:
    """Rows (count, d) of a mixture of NumPy arrays."""
    weights = np.asarray(mixture.weights) / np.sum(mixture.weights)
    chosen = generator.choice(len(weights), count, p=weights)
    rows = np.empty((count, mixture.means.shape[1]))
    for component in range(len(weights)):
        here = chosen == component
        values, vectors = np.linalg.eigh(mixture.covariances[component])
        noise = generator.standard_normal((int(here.sum()), len(values))) * np.sqrt(np.maximum(values, 0))
        rows[here] = mixture.means[component] + noise @ vectors.T
    return rows


def moments_of(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation (d) of a mixture of NumPy arrays."""
    weights = np.asarray(mixture.weights)[:, np.newaxis] / np.sum(mixture.weights)
    mean = (weights * mixture.means).sum(axis=0)
    variances = np.diagonal(mixture.covariances, axis1=1, axis2=2)
    squares = (weights * (variances + mixture.means**2)).sum(axis=0)
    return mean, np.sqrt(np.maximum(squares - mean**2, 0))


def _fit(rows: tf.Tensor, components: int) -> tuple[Mixture, tf.Tensor]:
    """The mixture and its criterion: the lower, the better."""
    count, dimensions = tf.cast(tf.shape(rows)[0], tf.float64), rows.shape[1]
    mean = tf.reduce_mean(rows, axis=0)
    centred = rows - mean
    covariance = tf.matmul(centred, centred, transpose_a=True) / count
    floor = tf.eye(dimensions, dtype=tf.float64) * (_FLOOR * tf.linalg.trace(covariance) / dimensions + _TINY)
    if components == 1:
        mixture = Mixture(tf.ones(1, tf.float64), mean[tf.newaxis], covariance[tf.newaxis])
        floored = mixture._replace(covariances=mixture.covariances + floor)
    else:
        _, vectors = tf.linalg.eigh(covariance)
        place = tf.argsort(tf.argsort(tf.linalg.matvec(centred, vectors[:, -1])))  # 0 … n − 1 along that direction
        part = tf.minimum(place * components // tf.shape(rows)[0], components - 1)
        shares = tf.one_hot(part, components, dtype=tf.float64)
        parts = tf.while_loop(
            lambda step, *_: step < STEPS,
            lambda step, *parts: (step + 1, *_maximised(rows, _shares(rows, Mixture(*parts))[0], floor)),
            (tf.constant(0), *_maximised(rows, shares, floor)),
        )
        mixture = floored = Mixture(*parts[1:])
    # Stains of length 1 lie on a curved surface, and ever more thin components would follow it.
    thick = floored._replace(covariances=floored.covariances + _NOISE / _FLOOR * floor)
    likelihood = tf.reduce_sum(_shares(rows, thick)[1])
    numbers = components * (1 + dimensions + dimensions * (dimensions + 1) // 2) - 1
    return mixture, numbers * tf.math.log(count) - 2 * likelihood


def _shares(rows: tf.Tensor, mixture: Mixture) -> tuple[tf.Tensor, tf.Tensor]:
    """Expectation: how much of each row (n, c) is each component's, and the rows' log-likelihoods (n)."""
    factors = tf.linalg.cholesky(mixture.covariances)
    apart = tf.transpose(rows[tf.newaxis] - mixture.means[:, tf.newaxis], [0, 2, 1])  # (c, d, n)
    white = tf.linalg.triangular_solve(factors, apart)
    volume = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factors)), axis=1)
    logs = -0.5 * tf.reduce_sum(white**2, axis=1) - volume[:, tf.newaxis] - rows.shape[1] / 2 * math.log(2 * math.pi)
    logs += tf.math.log(mixture.weights + _TINY)[:, tf.newaxis]
    total = tf.reduce_logsumexp(logs, axis=0)
    return tf.transpose(tf.exp(logs - total)), total


def _maximised(rows: tf.Tensor, shares: tf.Tensor, floor: tf.Tensor) -> Mixture:
    sizes = tf.reduce_sum(shares, axis=0) + _TINY
    means = tf.matmul(shares, rows, transpose_a=True) / sizes[:, tf.newaxis]
    apart = rows[tf.newaxis] - means[:, tf.newaxis]  # (c, n, d)
    weighted = apart * tf.transpose(shares)[:, :, tf.newaxis]
    covariances = tf.matmul(weighted, apart, transpose_a=True) / sizes[:, tf.newaxis, tf.newaxis] + floor
    return Mixture(sizes / tf.reduce_sum(sizes), means, covariances)


def _padded(mixture: Mixture, most: int) -> Mixture:
    more = most - mixture.weights.shape[0]
    return Mixture(*(tf.pad(part, [[0, more]] + [[0, 0]] * (len(part.shape) - 1)) for part in mixture))
