"""Scores as a function of how often each subject counts: what intervals and paired comparisons resample.

Images of one subject are alike, so that subjects, not images, are drawn. The metrics of `metrics.NAMED` are computed
for thousands of draws at once; any other function anew for each draw.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import sparse

from tffapps.evaluation import metrics

Metric = str | Callable[[np.ndarray, np.ndarray], float]  # one of `metrics.NAMED`, or of (labels, probabilities)
_BATCH = 1_000_000  # weights held at once


@dataclasses.dataclass(frozen=True)
class Run:
    """What one model predicted of its test images, one row an image."""

    labels: np.ndarray  # (n,)
    probabilities: np.ndarray  # (n, classes)
    subjects: np.ndarray  # (n,)
    images: np.ndarray | None = None  # (n,) names: a paired comparison needs them
    split: str = ""  # runs with the same split differ in the seed
    seed: int = 0
    train_subjects: int = 0  # how many the model was trained with: the corrected resampled t needs it

    def __post_init__(self) -> None:
        labels, probabilities, subjects = np.asarray(self.labels), np.asarray(self.probabilities), self.subjects
        if not len(labels):
            raise ValueError("no predictions: expected one row an image")
        if probabilities.ndim != 2 or not len(labels) == len(probabilities) == len(subjects):
            raise ValueError(
                f"labels {labels.shape}, probabilities {probabilities.shape} and {len(subjects)} subjects:"
                " expected (n,), (n, classes) and n"
            )
        if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= probabilities.shape[1]:
            raise ValueError(
                f"labels from {labels.min()} to {labels.max()}: expected 0 to {probabilities.shape[1] - 1}"
            )
        if not np.isfinite(probabilities).all():
            raise ValueError("probabilities are not finite: the model has diverged")
        if self.images is not None and len(self.images) != len(labels):
            raise ValueError(f"{len(self.images)} images for {len(labels)} labels")

    @functools.cached_property
    def times(self) -> np.ndarray:
        """(n,) how many rows the image of a row has: several where several models judge it."""
        if self.images is None:
            return np.ones(len(self.labels))
        _, index, times = np.unique(np.asarray(self.images), return_inverse=True, return_counts=True)
        return times[index].astype(np.float64)


def named(metric: Metric) -> Callable[[np.ndarray, np.ndarray], float]:
    """The function of a name; a ValueError for one that is not known."""
    if not isinstance(metric, str):
        return metric
    if metric not in metrics.NAMED:
        raise ValueError(f"metric {metric!r}: expected one of {', '.join(metrics.NAMED)}, or a function")
    return metrics.NAMED[metric]


def sums_of(metric: metrics.Counted, run: Run, index: np.ndarray, subjects: int) -> np.ndarray:
    """(subjects, c) what a metric sums over images; `index` (n,) is the subject of each.

    An image that several models judge is as much evidence as one: each of its rows counts for a part of it.
    """
    columns = metric.columns(np.asarray(run.labels), np.asarray(run.probabilities)) / run.times[:, None]
    member = sparse.csr_matrix((np.ones(len(index)), (index, np.arange(len(index)))), shape=(subjects, len(index)))
    return np.asarray(member @ columns)


class Scores:
    """One metric of several runs, where every subject counts as often in each run as its weight says."""

    def __init__(self, runs: Sequence[Run], metric: Metric) -> None:
        if not runs:
            raise ValueError("no runs: expected at least one")
        self.metric = named(metric)
        self.runs = runs
        lengths = [len(run.labels) for run in runs]
        names, index = np.unique(np.concatenate([np.asarray(run.subjects) for run in runs]), return_inverse=True)
        self.subjects = len(names)
        self.index = np.split(index, np.cumsum(lengths)[:-1])  # of each run, the subject of each image
        self._share = shares(runs)
        if isinstance(self.metric, metrics.Counted):
            self.sums = [sums_of(self.metric, run, where, self.subjects) for run, where in zip(runs, self.index)]

    def each(self, weights: np.ndarray) -> np.ndarray:
        """(draws, runs) of whole weights (draws, subjects)."""
        if isinstance(self.metric, metrics.Counted):
            return np.stack([self.metric.of(weights @ sums) for sums in self.sums], axis=1)
        each = [self._of_images(run, weights[:, where]) for run, where in zip(self.runs, self.index)]
        return np.stack(each, axis=1)

    def _of_images(self, run: Run, weights: np.ndarray) -> np.ndarray:
        """(draws,) of weights (draws, n)."""
        labels, probabilities = np.asarray(run.labels), np.asarray(run.probabilities)
        if isinstance(self.metric, metrics.Ranked):
            return self.metric.weighted(labels, probabilities, weights / run.times)
        result = np.full(len(weights), np.nan)
        for draw, weight in enumerate(weights):
            rows = np.repeat(np.arange(len(labels)), weight.astype(np.int64))
            if len(rows):
                result[draw] = self.metric(labels[rows], probabilities[rows])
        return result

    def mean(self, weights: np.ndarray) -> np.ndarray:
        """(draws,) mean over splits of the mean over a split's seeds; NaN where the metric of a run is undefined."""
        return self.each(weights) @ self._share

    def without_each(self) -> np.ndarray:
        """(subjects,) the mean without one subject: the jackknife."""
        if isinstance(self.metric, metrics.Counted):
            left = [self.metric.of(sums.sum(axis=0) - sums) for sums in self.sums]
            return np.stack(left, axis=1) @ self._share
        return np.concatenate([self.mean(1.0 - row[None]) for row in np.eye(self.subjects)])


def shares(runs: Sequence[Run]) -> np.ndarray:
    """(runs,) the share of each run in a mean over splits of means over seeds."""
    splits = [run.split for run in runs]
    return np.array([1 / (len(set(splits)) * splits.count(split)) for split in splits])


def resampled(subjects: int, draws: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Batches (some draws, subjects) of how often each subject is drawn, with replacement, as many as there are."""
    size = max(1, _BATCH // subjects)
    for start in range(0, draws, size):
        count = min(size, draws - start)
        drawn = random.integers(subjects, size=(count, subjects), dtype=np.int32)
        drawn += np.arange(count, dtype=np.int32)[:, None] * subjects
        yield np.bincount(drawn.ravel(), minlength=count * subjects).reshape(count, subjects).astype(np.float64)


def swapped(subjects: int, draws: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Batches (some draws, subjects) of 0 and 1: whether the two methods change places for a subject."""
    size = max(1, _BATCH // subjects)
    for start in range(0, draws, size):
        yield random.integers(2, size=(min(size, draws - start), subjects), dtype=np.int8).astype(np.float64)
