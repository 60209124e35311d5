"""What a client sends of its stains under differential privacy, and what the server makes of it.

A stain is a direction, and a direction two numbers: where it meets the plane that touches the sphere at the textbook's
stain. So a patch is four numbers, cut to a radius that is the same for all. A client sends the sums of its patches'
numbers and of their products, 4 and 10, with Gaussian noise that it adds itself.

    one patch changes (√½ Σ x/r, √½ Σ xxᵀ/r²) by a length of at most 1: noise of z on each gives epsilon at delta

Neighbours are data in which one patch adds nothing; how many patches a client has is taken as known. What the server
makes of the sums costs nothing more: mean and covariance, and directions drawn from them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from models.gaussian_mixture import Mixture
from preprocessing.stain import REFERENCE

PLACES = 4  # numbers of a patch
SENT = PLACES + PLACES * (PLACES + 1) // 2  # numbers of a client
RADIUS = 0.5  # of a patch's four numbers; stains further from the textbook's are cut to it
_FLOOR = 1e-5  # of a variance: of two patches' stains no more is alike
_UPPER = np.triu_indices(PLACES)
_ONCE = np.where(_UPPER[0] == _UPPER[1], 1.0, math.sqrt(2.0))  # so that the length is that of the whole matrix


def multiplier(epsilon: float, delta: float) -> float:
    """z: the least noise, in units of what one patch changes, that gives epsilon at delta (Balle and Wang 2018)."""
    low, high = 1e-3, 1e5
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        gain, loss = 0.5 / middle, epsilon * middle
        here = norm.cdf(gain - loss) - math.exp(epsilon + norm.logcdf(-gain - loss))
        low, high = (middle, high) if here > delta else (low, middle)
    return high


def places(matrices: np.ndarray) -> np.ndarray:
    """Of stain matrices (n, 3, 2): where they lie about the textbook's, (n, 4)."""
    found = []
    for stain, (along, axes) in enumerate(_planes()):
        vectors = matrices[:, :, stain].astype(np.float64)
        found.append(vectors @ axes / np.maximum(vectors @ along, 1e-3)[:, None])
    return np.concatenate(found, axis=1)


def directions(found: np.ndarray) -> np.ndarray:
    """The stain matrices (n, 3, 2) at these places (n, 4): columns of length 1, nothing negative."""
    columns = []
    for stain, (along, axes) in enumerate(_planes()):
        vectors = np.maximum(along + found[:, 2 * stain : 2 * stain + 2] @ axes.T, 0)
        columns.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return np.stack(columns, axis=2).astype(np.float32)


def released(matrices: np.ndarray, noise: float, generator: np.random.Generator) -> np.ndarray:
    """What a client sends of its stain matrices: fourteen numbers."""
    found = places(matrices) / RADIUS
    found /= np.maximum(1, np.linalg.norm(found, axis=1, keepdims=True))
    products = (found[:, :, None] * found[:, None, :])[:, _UPPER[0], _UPPER[1]] * _ONCE
    sums = np.concatenate([found, products], axis=1).sum(axis=0) * math.sqrt(0.5)
    return sums + noise * generator.standard_normal(SENT)


def gaussian_of(sums: np.ndarray, count: int) -> Mixture:
    """Mean and covariance of the places of a client with so many patches, of what it sent."""
    means = sums / (math.sqrt(0.5) * count)
    centre = means[:PLACES]
    centre /= max(1.0, float(np.linalg.norm(centre)))  # where no noise could have brought it
    second = np.zeros((PLACES, PLACES))
    second[_UPPER] = means[PLACES:] / _ONCE
    second = second + np.triu(second, 1).T - np.outer(centre, centre)
    values, vectors = np.linalg.eigh(RADIUS**2 * second)
    covariance = (vectors * np.maximum(values, _FLOOR)) @ vectors.T
    return Mixture(np.ones(1), RADIUS * centre[None], covariance[None])


def _planes() -> Sequence[tuple[np.ndarray, np.ndarray]]:
    """Of each stain: the textbook's direction (3), and two axes at right angles to it (3, 2)."""
    found = []
    for stain in range(2):
        along = REFERENCE[:, stain] / np.linalg.norm(REFERENCE[:, stain])
        axes = np.linalg.svd(along[None])[2][1:].T
        found.append((along.astype(np.float64), axes.astype(np.float64)))
    return found
