"""Distances between two sets of vectors, one vector a row: are they drawn from the same distribution?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import wasserstein_distance


def frechet_distance(a: np.ndarray, b: np.ndarray) -> float:
    """‖μ₁−μ₂‖² + tr(C₁ + C₂ − 2(C₁C₂)^½) of the Gaussians fitted to the rows: FID (Heusel et al. 2017).

    With C = AᵀA the eigenvalues of C₁C₂ are the squared singular values of A₁A₂ᵀ, so no matrix is squared and
    rooted again: covariances of fewer rows than columns, which are singular, lose no digits. A set of one row
    has the covariance 0.
    """
    a, b = _checked(a, b)
    return frechet_between(Gaussian.of(a), Gaussian.of(b))


class Gaussian(NamedTuple):
    """Fitted to some rows; all that a Fréchet distance needs to know of them."""

    mean: np.ndarray  # (d)
    factor: np.ndarray  # a matrix A of at most as many rows as columns for which AᵀA is the covariance

    @classmethod
    def of(cls, rows: np.ndarray) -> Gaussian:
        rows = np.asarray(rows, np.float64)
        factor = (rows - rows.mean(axis=0)) / np.sqrt(max(1, len(rows) - 1))
        return cls(rows.mean(axis=0), np.linalg.qr(factor, mode="r") if len(rows) > rows.shape[1] else factor)

    def divided(self, by: np.ndarray) -> Gaussian:
        """That of the rows divided by these numbers (d)."""
        return Gaussian(self.mean / by, self.factor / by)


def frechet_between(a: Gaussian, b: Gaussian) -> float:
    shift = a.mean - b.mean
    overlap = np.linalg.svd(a.factor @ b.factor.T, compute_uv=False).sum()
    return max(0.0, float(shift @ shift + (a.factor**2).sum() + (b.factor**2).sum() - 2 * overlap))


def kernel_distance(
    a: np.ndarray, b: np.ndarray, *, subsets: int = 100, subset_size: int = 1000, seed: int = 0
) -> float:
    """The unbiased squared maximum mean discrepancy under (x·y/d + 1)³: KID (Bińkowski et al. 2018).

    Sets of more than `subset_size` rows are compared by that many `subsets` drawn from them, of which this is
    the mean. NaN where a set has one row: then there is no unbiased estimate.
    """
    a, b = _checked(a, b)
    if min(len(a), len(b)) < 2:
        return float("nan")
    if max(len(a), len(b)) <= subset_size:
        return _discrepancy(a, b)
    generator = np.random.default_rng(seed)

    def some(rows: np.ndarray) -> np.ndarray:
        return rows[generator.choice(len(rows), min(subset_size, len(rows)), replace=False)]

    return float(np.mean([_discrepancy(some(a), some(b)) for _ in range(subsets)]))


def gaussian_kernel_distance(a: np.ndarray, b: np.ndarray) -> float:
    """The unbiased squared maximum mean discrepancy under exp(−‖x−y‖² / 2s²) (Gretton et al. 2012).

    s is the median distance of the rows of b, which are the real ones, and a half and a quarter of it, of which the
    mean is taken: two heaps close to each other are seen by a narrow kernel. About 0 (below it, even) for equal
    distributions; NaN where a set has one row.
    """
    a, b = _checked(a, b)
    if min(len(a), len(b)) < 2:
        return float("nan")
    within, across = (_squares(a, a), _squares(b, b)), _squares(a, b)
    median = np.median(within[1][np.triu_indices(len(b), 1)]) or 1.0
    found = []
    for scale in (2 * median, median / 2, median / 8):
        kernels = [np.exp(-squares / scale) for squares in within]
        inner = [(kernel.sum() - np.trace(kernel)) / (len(kernel) * (len(kernel) - 1)) for kernel in kernels]
        found.append(sum(inner) - 2 * np.exp(-across / scale).mean())
    return float(np.mean(found))


def two_sample_accuracy(a: np.ndarray, b: np.ndarray, seed: int = 0) -> float:
    """How often a classifier tells rows of a from rows of b (Lopez-Paz and Oquab 2017): 0.5 if nothing does.

    The classifier is the vote of the √n nearest neighbours, every column in units of b's deviation; it learns from
    half of the rows, as many of each set, and is asked of the others. NaN where a set has fewer than four rows.
    """
    from sklearn.neighbors import KNeighborsClassifier

    a, b = _checked(a, b)
    count = min(len(a), len(b)) // 2 * 2
    if count < 4:
        return float("nan")
    generator, spread = np.random.default_rng(seed), b.std(axis=0)
    rows = np.stack([rows[generator.permutation(len(rows))[:count]] for rows in (a, b)]) / np.where(spread, spread, 1)
    learned, asked = rows[:, ::2].reshape(count, -1), rows[:, 1::2].reshape(count, -1)
    labels = np.repeat([0, 1], count // 2)
    neighbours = max(1, int(np.sqrt(count))) // 2 * 2 + 1  # an odd number: no ties
    classifier = KNeighborsClassifier(min(neighbours, count)).fit(learned, labels)
    return float((classifier.predict(asked) == labels).mean())


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of every row of a from every row of b."""
    return np.maximum((a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T, 0)


def matrix_wasserstein(a: np.ndarray, b: np.ndarray) -> float:
    """The Wasserstein-1 distance of the two sets' values in one column, mean over the columns."""
    a, b = _checked(a, b)
    return float(np.mean([wasserstein_distance(first, second) for first, second in zip(a.T, b.T)]))


def _discrepancy(a: np.ndarray, b: np.ndarray) -> float:
    """Mean kernel of pairs within a, and within b, less twice that of pairs across."""
    across = _kernel(a, b).mean()
    within = 0.0
    for rows in (a, b):
        values = _kernel(rows, rows)
        within += (values.sum() - np.trace(values)) / (len(rows) * (len(rows) - 1))  # no row with itself
    return float(within - 2 * across)


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    values = a @ b.T / a.shape[1] + 1
    return values * values * values  # ten times as fast as a power


def _checked(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or not (a.size and b.size):
        raise ValueError(f"sets of vectors {a.shape} and {b.shape}: expected (n, d) and (m, d), none of them empty")
    for rows in (a, b):
        bad = int((~np.isfinite(rows)).any(axis=1).sum())
        if bad:
            raise ValueError(f"{bad} of {len(rows)} vectors are not finite")
    return a, b
