"""Stain matrices as the vectors that the stain model learns: plain NumPy, for sites that prepare theirs."""

import numpy as np

from tffapps.evaluation.distances import frechet_distance, matrix_wasserstein
from tffapps.federated.moments import Moments

NUMBERS = 6  # of a stain matrix
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
    """fd and wd of standardised vectors (m, 6) that were drawn from matrices (n, 3, 2), in the units of the former."""
    real = standardised(matrices, moments)
    return {"fd": frechet_distance(drawn, real), "wd": matrix_wasserstein(drawn, real)}
