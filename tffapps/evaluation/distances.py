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
