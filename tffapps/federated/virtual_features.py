"""Virtual features: Gaussians of each class, pooled from clients' sums, and a linear classifier fitted to draws from
them.

NumPy alone, in double precision. d is the size of a feature.

    pooled      means and covariances of all clients' features together: exact, as n, Σz and Σzzᵀ add up
    shrunk      a covariance of few images is mixed with that of all classes
    drawn       features of each class, as many of each
    fitted      the kernel and bias of least cross-entropy on them, plus a penalty: convex, so that no step size matters
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

_ITERATIONS = 200


class ClassGaussians(NamedTuple):
    counts: np.ndarray  # (classes)
    means: np.ndarray  # (classes, d)
    covariances: np.ndarray  # (classes, d, d)


def pooled(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> ClassGaussians:
    """Of n (classes), Σz (classes, d) and Σzzᵀ (classes, d, d); the covariance of one image is zero."""
    counts = np.asarray(counts, np.float64)
    means = sums / np.maximum(counts, 1)[:, None]
    scatter = squares - counts[:, None, None] * means[:, :, None] * means[:, None, :]
    return ClassGaussians(counts, means, scatter / np.maximum(counts - 1, 1)[:, None, None])


def shrunk(found: ClassGaussians, images: float) -> ClassGaussians:
    """Each covariance as if `images` more had been seen whose covariance is the mean one within classes."""
    freedom = np.maximum(found.counts - 1, 0)
    within = np.tensordot(freedom, found.covariances, 1) / max(freedom.sum(), 1)
    total = np.maximum(freedom + images, np.finfo(np.float64).tiny)[:, None, None]
    mixed = (freedom[:, None, None] * found.covariances + images * within) / total
    return found._replace(covariances=mixed)


def drawn(found: ClassGaussians, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` features of each class that there is, and their classes."""
    features, labels = [], []
    for label in np.flatnonzero(found.counts > 0):
        values, vectors = np.linalg.eigh(found.covariances[label])
        root = vectors * np.sqrt(np.maximum(values, 0))  # rounding can take an eigenvalue below zero
        noise = np.random.default_rng([seed, int(label)]).standard_normal((count, len(values)))
        features.append(found.means[label] + noise @ root.T)
        labels.append(np.full(count, label))
    return np.concatenate(features), np.concatenate(labels)


def fitted(
    features: np.ndarray, labels: np.ndarray, kernel: np.ndarray, bias: np.ndarray, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    """Kernel (d, classes) and bias (classes), sought from those that are given."""
    shape, size = kernel.shape, kernel.size
    wanted = np.eye(shape[1])[labels]

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        weights, shift = values[:size].reshape(shape), values[size:]
        logits = features @ weights + shift
        logarithms = scipy.special.log_softmax(logits, axis=1)
        error = (np.exp(logarithms) - wanted) / len(features)
        gradient = np.concatenate([(features.T @ error + penalty * weights).ravel(), error.sum(axis=0)])
        value = -(logarithms * wanted).sum() / len(features) + penalty * (weights**2).sum() / 2
        return float(value), gradient

    start = np.concatenate([np.ravel(kernel), np.ravel(bias)]).astype(np.float64)
    found = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}).x
    return found[:size].reshape(shape), found[size:]
