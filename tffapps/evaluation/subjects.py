"""Scores as a function of how often each subject counts: what intervals and paired comparisons resample.

Images of one subject are alike, so that subjects, not images, are drawn. Accuracy and macro F1 need three counts a
class and subject (hits, true, predicted, the diagonal and the margins of its confusion matrix): thousands of draws are
then one product of matrices. Any other metric is computed anew for each draw.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

Metric = str | Callable[[np.ndarray, np.ndarray], float]  # one of COUNTED, or of (labels, probabilities)
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


def accuracy(counts: np.ndarray) -> np.ndarray:
    """(…,) of counts (…, 3, classes): the share of images that are hits."""
    with np.errstate(invalid="ignore"):
        return counts[..., 0, :].sum(axis=-1) / counts[..., 1, :].sum(axis=-1)


def macro_f1(counts: np.ndarray) -> np.ndarray:
    """(…,) of counts (…, 3, classes): the mean F1 of the classes that occur among labels or predictions."""
    either = counts[..., 1, :] + counts[..., 2, :]
    f1 = np.divide(2 * counts[..., 0, :], either, out=np.zeros_like(either), where=either > 0)
    with np.errstate(invalid="ignore"):
        return f1.sum(axis=-1) / (either > 0).sum(axis=-1)


COUNTED: dict[str, Callable[[np.ndarray], np.ndarray]] = {"accuracy": accuracy, "macro_f1": macro_f1}


def check_metric(metric: Metric) -> None:
    """A ValueError for a name that is not one of COUNTED."""
    if isinstance(metric, str) and metric not in COUNTED:
        raise ValueError(f"metric {metric!r}: expected one of {', '.join(COUNTED)}, or a function")


def counts_of(labels: np.ndarray, probabilities: np.ndarray, index: np.ndarray, subjects: int) -> np.ndarray:
    """(subjects, 3, classes) hits, true and predicted images; `index` (n,) is the subject of each image."""
    classes = probabilities.shape[1]
    predicted = probabilities.argmax(axis=1)
    hit = labels == predicted
    counts = np.empty((subjects, 3, classes))
    for place, (rows, column) in enumerate(((hit, labels), (slice(None), labels), (slice(None), predicted))):
        cell = index[rows] * classes + column[rows]
        counts[:, place] = np.bincount(cell, minlength=subjects * classes).reshape(subjects, classes)
    return counts


class Scores:
    """One metric of several runs, where every subject counts as often in each run as its weight says."""

    def __init__(self, runs: Sequence[Run], metric: Metric) -> None:
        if not runs:
            raise ValueError("no runs: expected at least one")
        check_metric(metric)
        self.runs, self.metric = runs, metric
        lengths = [len(run.labels) for run in runs]
        names, index = np.unique(np.concatenate([np.asarray(run.subjects) for run in runs]), return_inverse=True)
        self.subjects = len(names)
        self.index = np.split(index, np.cumsum(lengths)[:-1])  # of each run, the subject of each image
        self._share = shares(runs)
        if isinstance(metric, str):
            self.counts = [
                counts_of(np.asarray(run.labels), np.asarray(run.probabilities), where, self.subjects)
                for run, where in zip(runs, self.index)
            ]

    def each(self, weights: np.ndarray) -> np.ndarray:
        """(draws, runs) of whole weights (draws, subjects)."""
        if isinstance(self.metric, str):
            of_counts = COUNTED[self.metric]
            sums = ((weights @ counts.reshape(self.subjects, -1), counts.shape[1:]) for counts in self.counts)
            return np.stack([of_counts(total.reshape(len(weights), *shape)) for total, shape in sums], axis=1)
        result = np.full((len(weights), len(self.runs)), np.nan)
        for draw, weight in enumerate(weights):
            for place, (run, where) in enumerate(zip(self.runs, self.index)):
                rows = np.repeat(np.arange(len(where)), weight[where].astype(np.int64))
                if len(rows):
                    result[draw, place] = self.metric(np.asarray(run.labels)[rows], np.asarray(run.probabilities)[rows])
        return result

    def mean(self, weights: np.ndarray) -> np.ndarray:
        """(draws,) mean over splits of the mean over a split's seeds; NaN where the metric of a run is undefined."""
        return self.each(weights) @ self._share

    def without_each(self) -> np.ndarray:
        """(subjects,) the mean without one subject: the jackknife."""
        if isinstance(self.metric, str):
            of_counts = COUNTED[self.metric]
            left = [of_counts(counts.sum(axis=0) - counts) for counts in self.counts]
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
