"""Is an image unlike those that a model was trained on? Its distance from them in a network's space of features.

What the network makes of training images (`Parts.located`) is taken for normally distributed: a mean, the directions in
which they vary most, and one variance for all others (probabilistic PCA, Tipping and Bishop, 1999). The Mahalanobis
distance is divided by the one that few of the images held back for it exceed: above 1 an image is unlike. It tells
another kind of image, not a wrong answer, and an image may be like the others in this space and yet be none.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from tffapps.use import arrays
from tffapps.use.folder import Folder

DIRECTIONS = 32
LEAST = 20  # images, training and held back together
FEW = 0.01  # of the images held back lie beyond 1
_ROUNDING = 1.001  # the farthest of few images is not beyond itself because it is worked out in another batch
_SMALLEST = 1e-6  # variance, of the mean one: a direction in which nothing varies


@dataclasses.dataclass(frozen=True, eq=False)
class Novelty:
    """Where the features (d,) of training images lie."""

    mean: np.ndarray  # (d,)
    directions: np.ndarray  # (k, d), orthonormal
    variances: np.ndarray  # (k,)
    rest: np.ndarray  # (), the variance in each other direction
    unit: np.ndarray  # (), the distance that is called 1

    @classmethod
    def fit(cls, features: np.ndarray, held_back: np.ndarray) -> Novelty:
        """Of features (n, d) of training images, and of others (m, d) that the unit is taken from."""
        values = np.asarray(features, np.float64)
        mean = values.mean(axis=0)
        centred = values - mean
        _, singular, directions = np.linalg.svd(centred, full_matrices=False)
        variances = singular**2 / max(len(values) - 1, 1)
        kept = min(DIRECTIONS, len(values) // 2, len(variances))
        floor = max(float(variances.sum()) / values.shape[1] * _SMALLEST, float(np.finfo(np.float32).tiny))
        others = values.shape[1] - kept
        rest = max(float(variances[kept:].sum()) / others if others else 0.0, floor)
        fitted = cls(mean, directions[:kept], np.maximum(variances[:kept], floor), np.array(rest), np.array(1.0))
        # A share of few images is the farthest of them.
        unit = np.quantile(fitted.distances(held_back), 1 - FEW, method="higher")
        return dataclasses.replace(fitted, unit=np.array(max(float(unit), floor) * _ROUNDING))

    def distances(self, features: np.ndarray) -> np.ndarray:
        """(n,) of features (n, d); above 1: unlike the training images."""
        centred = np.asarray(features, np.float64) - self.mean
        along = centred @ self.directions.T
        beside = np.maximum((centred**2).sum(axis=1) - (along**2).sum(axis=1), 0)
        return np.sqrt((along**2 / self.variances).sum(axis=1) + beside / self.rest) / self.unit

    def save(self, path: Path) -> None:
        arrays.write(path, {field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    @classmethod
    def read(cls, folder: Folder, name: str) -> Novelty:
        found = arrays.read(
            folder, name, {"mean": (None,), "directions": (None, None), "variances": (None,), "rest": (), "unit": ()}
        )
        if found["directions"].shape != (len(found["variances"]), len(found["mean"])):
            raise arrays.refused(folder, name, "has as many directions as variances, each as wide as the mean")
        if min(found["variances"].min(), found["rest"], found["unit"]) <= 0:
            raise arrays.refused(folder, name, "has variances above 0")
        return cls(**found)
