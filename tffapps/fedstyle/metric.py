"""Which directions of an embedding tell artists apart: those in which one artist's own pictures differ count less.

Every artist has a spread, the scatter of the embeddings of their pictures about their mean, as at most `MOST` vectors:
directions of falling weight, no picture's embedding among them. The spreads of a catalogue add up to the covariance W
within artists, and vectors are taken to (W + t I)^(-1/2) v before they are centred and compared (within-class
covariance normalisation: Hatch, Kajarekar and Stolcke, Interspeech 2006). t is a share of the largest eigenvalue of W.
Nobody trains: who joins adds a spread, who leaves takes it along.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

MOST = 48  # vectors of a spread
SHRINKING = 0.003  # t, of the largest eigenvalue: chosen on validation pictures (docs/fedstyle.md)
_LEAST = 1e-12


@dataclasses.dataclass(frozen=True)
class Metric:
    """(W + t I)^(-1/2) up to a factor: what lies in `directions` is made smaller, all else stays."""

    directions: np.ndarray  # (k, d), orthonormal
    factors: np.ndarray  # (k,), at most 1

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """(n, d) → (n, d)."""
        return vectors + ((vectors @ self.directions.T) * (self.factors - 1)) @ self.directions

    @classmethod
    def of(cls, spreads: Sequence[np.ndarray], shrinking: float = SHRINKING) -> Metric:
        """Of spreads (k, d) each; nothing changes where they are all empty."""
        rows = np.concatenate(list(spreads)) if len(spreads) else np.zeros((0, 1))
        if not len(rows):
            return cls(np.zeros((0, rows.shape[1])), np.zeros(0))
        _, lengths, directions = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
        values, kept = lengths**2, lengths > _LEAST
        least = shrinking * values[0]
        if least <= 0:
            return cls(np.zeros((0, rows.shape[1])), np.zeros(0))
        return cls(directions[kept], np.sqrt(least / (values[kept] + least)))


def spread_of(vectors: np.ndarray, most: int = MOST) -> np.ndarray:
    """(k, d), float32, of the embeddings (n, d) of an artist's pictures; its rows' outer products add up to their
    scatter about the mean, divided by the pictures less one."""
    if len(vectors) < 2:
        return np.zeros((0, vectors.shape[1]), np.float32)
    centred = (vectors - vectors.mean(axis=0)) / np.sqrt(len(vectors) - 1)
    _, lengths, directions = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    kept = min(most, len(vectors) - 1)
    return (lengths[:kept, None] * directions[:kept]).astype(np.float32)
