"""What a client can do to Gram matrices before it sends them, so that they tell less of single images.

    averaged    each style is the mean of several images' matrices: no single image's is sent
    noised      Gaussian noise, in shares of a matrix's own size; then the nearest matrix that can be F Fᵀ

Noise is an obstacle to who compares matrices, not a promise: where entries get noise of σ times their root mean square,
the noise multiplier of a whole matrix of c channels, its norm bounded, is σ / 2c. In terms of differential privacy that
is next to none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from preprocessing.gram_files import Grams

_LARGEST = 0.999  # of what a mean can be, beside its matrix's diagonal: float32 rounds


def averaged(arrays: Sequence[np.ndarray], of: int) -> list[np.ndarray]:
    """Of arrays (n, …) the means of every `of` rows, one after the other; what is left over is left out, unless all."""
    count = max(1, len(arrays[0]) // of)
    return [array[: count * of].reshape(count, -1, *array.shape[1:]).mean(axis=1) for array in arrays]


def noised(matrices: Sequence[np.ndarray], share: float, generator: np.random.Generator) -> list[np.ndarray]:
    """Of Gram matrices (n, c, c) each: symmetric noise on every entry."""
    result = []
    for matrix in matrices:
        size = np.sqrt(np.square(matrix, dtype=np.float64).mean(axis=(1, 2), keepdims=True))
        noise = np.triu(generator.standard_normal(matrix.shape) * share * size)
        noise += np.triu(noise, 1).transpose(0, 2, 1)
        result.append((matrix + noise).astype(np.float32))
    return result


def projected(matrix: np.ndarray) -> np.ndarray:
    """The nearest matrices (n, c, c) that can be F Fᵀ: without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix.astype(np.float64))
    root = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
    return (root @ root.transpose(0, 2, 1)).astype(np.float32)


def possible(means: np.ndarray, matrices: np.ndarray, places: int) -> np.ndarray:
    """Means (n, c) no larger than those of activations with these Gram matrices can be."""
    largest = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2) / places)
    return np.clip(means, 0, _LARGEST * largest).astype(np.float32)


def protected(grams: Grams, of: int, share: float, level: int, generator: np.random.Generator) -> Grams:
    """The same after both: `of` images a style, noise of this share; means belong to this `level` of the matrices."""
    matrices, means = list(grams.matrices), grams.means
    if of > 1:
        matrices, means = averaged(matrices, of), None if means is None else averaged([means], of)[0]
    if share > 0:
        matrices = [projected(matrix) for matrix in noised(matrices, share, generator)]
        if means is not None:
            size = np.sqrt(np.square(means).mean(axis=1, keepdims=True))
            noise = generator.standard_normal(means.shape) * share * size
            means = possible(means + noise, matrices[level], grams.positions[level])
    means = None if means is None else means.astype(np.float32)
    return dataclasses.replace(grams, matrices=[matrix.astype(np.float32) for matrix in matrices], means=means)
