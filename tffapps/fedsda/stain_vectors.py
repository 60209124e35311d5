"""Stain matrices as the vectors that the stain model learns: plain NumPy, for sites that prepare theirs."""

import numpy as np

from tffapps.evaluation.distances import (
    frechet_distance,
    gaussian_kernel_distance,
    matrix_wasserstein,
    two_sample_accuracy,
)
from tffapps.federated.moments import Moments

NUMBERS = 6  # of a stain matrix
DISTANCES = ("fd", "wd", "fd_raw", "wd_raw", "mmd", "c2st")
_MOST = 2000  # vectors that are compared pair by pair
_FLAT = 1e-6  # a number that is the same in all matrices is left as it is


def as_vectors(matrices: np.ndarray) -> np.ndarray:
    """(n, 3, 2) → (n, 6): haematoxylin's red, green and blue, then eosin's."""
    return matrices.transpose(0, 2, 1).reshape(-1, NUMBERS)


def as_matrices(vectors: np.ndarray) -> np.ndarray:
    return vectors.reshape(-1, 2, 3).transpose(0, 2, 1)


def standardised(matrices: np.ndarray, moments: Moments) -> np.ndarray:
    return ((as_vectors(matrices) - moments.mean) / scale(moments)).astype(np.float32)


def scale(moments: Moments) -> np.ndarray:
    return np.where(moments.std > _FLAT, moments.std, 1.0)


def distances(drawn: np.ndarray, matrices: np.ndarray, moments: Moments) -> dict[str, float]:
    """DISTANCES of standardised vectors (m, 6), that were drawn, from matrices (n, 3, 2).

    fd and wd are in the units of the former. fd_raw and wd_raw are as in the paper's code: of the numbers as they are,
    haematoxylin's three and eosin's apart, the mean of both. mmd and c2st ask more than means and covariances.
    """
    real = standardised(matrices, moments)
    raw = drawn * scale(moments) + moments.mean, as_vectors(matrices)
    apart = [[part[:, three] for part in raw] for three in (slice(0, 3), slice(3, 6))]
    return {
        "fd": frechet_distance(drawn, real),
        "wd": matrix_wasserstein(drawn, real),
        "fd_raw": float(np.mean([frechet_distance(*pair) for pair in apart])),
        "wd_raw": matrix_wasserstein(*raw),
        "mmd": gaussian_kernel_distance(drawn[:_MOST], real[:_MOST]),
        "c2st": two_sample_accuracy(drawn[:_MOST], real[:_MOST]),
    }
