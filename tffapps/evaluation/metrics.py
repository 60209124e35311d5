"""Scores as functions of how much every image weighs: what bootstrap and swaps need, for thousands of draws at once.

Two kinds. A `Counted` metric is a function of sums over images (hits, true and predicted images of each class, losses):
sums of subjects are added up once, and a draw is a product of matrices. A `Ranked` one (an area under a curve) needs
the order of the images, which does not change with their weights.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from tffapps.evaluation.ranking import ranks

SMALLEST_PROBABILITY = 1e-7  # keeps the loss of a confident mistake finite, as in `classification.scores`
Of = Callable[[np.ndarray], np.ndarray]


class Metric(Protocol):
    """Of one run's images."""

    larger_is_better: bool

    def __call__(self, labels: np.ndarray, probabilities: np.ndarray) -> float:
        """With every image counting once."""


class Counted:
    """Of sums over images.

    Args:
      columns: (n, c) of labels (n,) and probabilities (n, classes): what is summed.
      of: (…,) of sums (…, c).
    """

    def __init__(
        self, columns: Callable[[np.ndarray, np.ndarray], np.ndarray], of: Of, *, larger_is_better: bool = True
    ) -> None:
        self.columns, self.of, self.larger_is_better = columns, of, larger_is_better

    def __call__(self, labels: np.ndarray, probabilities: np.ndarray) -> float:
        return float(self.of(self.columns(np.asarray(labels), np.asarray(probabilities)).sum(axis=0)))


class Ranked:
    """The mean over classes of an area: one class against the rest, over classes that have images and are not all.

    Args:
      area: (draws,) of the weights of positives and of negatives (draws, values), in falling order of the score.
      positive: the class whose area it is, instead of a mean.
    """

    larger_is_better = True

    def __init__(self, area: Callable[[np.ndarray, np.ndarray], np.ndarray], positive: int | None = None) -> None:
        self._area, self._positive = area, positive

    def __call__(self, labels: np.ndarray, probabilities: np.ndarray) -> float:
        return float(self.weighted(labels, probabilities, np.ones((1, len(labels))))[0])

    def weighted(self, labels: np.ndarray, probabilities: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(draws,) of weights (draws, n); NaN where no class has both positives and negatives."""
        classes = range(probabilities.shape[1]) if self._positive is None else [self._positive]
        areas = []
        for code in classes:
            positive = labels == code
            if 0 < positive.sum() < len(labels):
                order = np.argsort(-probabilities[:, code], kind="stable")
                values = probabilities[order, code]
                first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))  # of equal scores
                drawn, is_positive = weights[:, order], positive[order]
                sides = drawn * is_positive, drawn * ~is_positive
                if len(first) < len(values):
                    sides = np.add.reduceat(sides[0], first, axis=1), np.add.reduceat(sides[1], first, axis=1)
                areas.append(self._area(*sides))
        return _mean_of_defined(np.stack(areas)) if areas else np.full(len(weights), np.nan)

    def of_many(self, labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        """(draws,) of probabilities (draws, n, classes), every image counting once: what a call gives for each."""
        classes = range(probabilities.shape[2]) if self._positive is None else [self._positive]
        areas = []
        for code in classes:
            positive = labels == code
            if 0 < positive.sum() < len(labels):
                order = np.argsort(-probabilities[..., code], axis=1, kind="stable")
                values, is_positive = np.take_along_axis(probabilities[..., code], order, axis=1), positive[order]
                last = np.ones(values.shape, bool)  # of equal scores: it stands for all of them
                last[:, :-1] = values[:, 1:] != values[:, :-1]
                areas.append(self._area(_at_last(is_positive, last), _at_last(~is_positive, last)))
        return _mean_of_defined(np.stack(areas)) if areas else np.full(len(probabilities), np.nan)


def _at_last(counts: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Sums of counts (draws, n) from one place that is the last of its scores to the next, there; 0 elsewhere."""
    so_far = np.where(last, np.cumsum(counts, axis=1), 0)
    before = np.zeros_like(so_far)
    before[:, 1:] = np.maximum.accumulate(so_far, axis=1)[:, :-1]
    return np.where(last, so_far - before, 0).astype(np.float64)


def _mean_of_defined(areas: np.ndarray) -> np.ndarray:
    defined = np.isfinite(areas)
    with np.errstate(invalid="ignore"):
        return np.where(defined, areas, 0).sum(axis=0) / defined.sum(axis=0)


def _roc_area(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Pairs in the right order, a tie being half of one."""
    below = negative.sum(axis=1, keepdims=True) - np.cumsum(negative, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (positive * (below + negative / 2)).sum(axis=1) / (positive.sum(axis=1) * negative.sum(axis=1))


def _average_precision(positive: np.ndarray, negative: np.ndarray) -> np.ndarray:
    hits, called = np.cumsum(positive, axis=1), np.cumsum(positive + negative, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(called > 0, hits / called, 0)
        both = (positive.sum(axis=1) > 0) & (negative.sum(axis=1) > 0)
        return np.where(both, (positive * precision).sum(axis=1) / positive.sum(axis=1), np.nan)


def _class_counts(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(n, 3 × classes): hits, true and predicted images of each class."""
    eye = np.eye(probabilities.shape[1])
    true, predicted = eye[labels], eye[probabilities.argmax(axis=1)]
    return np.concatenate([true * predicted, true, predicted], axis=1)


def _by_class(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hits, true, predicted = np.split(counts, 3, axis=-1)
    return hits, true, predicted


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """0 for 0/0."""
    return np.divide(part, whole, out=np.zeros_like(whole, dtype=np.float64), where=whole > 0)


def _accuracy(counts: np.ndarray) -> np.ndarray:
    hits, true, _ = _by_class(counts)
    with np.errstate(invalid="ignore"):
        return hits.sum(axis=-1) / true.sum(axis=-1)


def _averaged(score: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], *, macro: bool) -> Of:
    """Of a score by class: the mean over classes that occur among labels or predictions, or weighted by class size."""

    def of(counts: np.ndarray) -> np.ndarray:
        hits, true, predicted = _by_class(counts)
        weight = ((true + predicted) > 0).astype(np.float64) if macro else true
        with np.errstate(invalid="ignore"):
            return (score(hits, true, predicted) * weight).sum(axis=-1) / weight.sum(axis=-1)

    return of


def _precision(hits: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return _share(hits, predicted)


def _recall(hits: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return _share(hits, true)


def _f1(hits: np.ndarray, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    return _share(2 * hits, true + predicted)


def f1_of(code: int) -> Counted:
    """F1 of one class."""
    return Counted(_class_counts, lambda counts: _f1(*_by_class(counts))[..., code])


def recall_of(code: int) -> Counted:
    """Sensitivity for one class."""
    return Counted(_class_counts, lambda counts: _recall(*_by_class(counts))[..., code])


def calibration_error(bins: int = 15) -> Counted:
    """Expected calibration error, of bins of equal width: those of equal mass would move with every draw."""

    def columns(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        confidence = probabilities.max(axis=1)
        place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
        gap = (probabilities.argmax(axis=1) == labels) - confidence
        return np.concatenate([np.eye(bins)[place] * gap[:, None], np.ones((len(labels), 1))], axis=1)

    def of(sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return np.abs(sums[..., :-1]).sum(axis=-1) / sums[..., -1]

    return Counted(columns, of, larger_is_better=False)


def kappa() -> Counted:
    """Quadratic weighted kappa, of classes in their order: 1 for agreement, 0 for that of chance; NaN for one class."""

    def columns(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        predicted = probabilities.argmax(axis=1)
        eye = np.eye(probabilities.shape[1])
        squares = ((labels - predicted) ** 2).astype(np.float64)
        return np.concatenate([squares[:, None], eye[labels], eye[predicted]], axis=1)

    def of(sums: np.ndarray) -> np.ndarray:
        true, predicted = np.split(sums[..., 1:], 2, axis=-1)
        grades = np.arange(true.shape[-1])
        chance = np.einsum("...i,ij,...j->...", true, (grades[:, None] - grades) ** 2.0, predicted)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(chance > 0, 1 - sums[..., 0] * true.sum(axis=-1) / chance, np.nan)

    return Counted(columns, of)


def mean_of(column: int, *, larger_is_better: bool = True) -> Counted:
    """The mean of a column of what stands in the place of probabilities: something measured on every image."""
    return Counted(
        lambda labels, values: np.stack([values[:, column], np.ones(len(values))], axis=1),
        _mean,
        larger_is_better=larger_is_better,
    )


def _mean(sums: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


def _losses(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    likelihood = np.clip(probabilities[np.arange(len(labels)), labels], SMALLEST_PROBABILITY, 1)
    return np.stack([-np.log(likelihood), np.ones(len(labels))], axis=1)


def _squares(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    distance = ((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2).sum(axis=1)
    return np.stack([distance, np.ones(len(labels))], axis=1)


def _within(first: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Whether the right class is among the `first`, of equal scores the last: `ranking.ranks`."""
    return lambda labels, scores: np.stack([ranks(labels, scores) <= first, np.ones(len(labels))], axis=1)


def _reciprocal_ranks(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return np.stack([1 / ranks(labels, scores), np.ones(len(labels))], axis=1)


NAMED: dict[str, Counted | Ranked] = {
    "accuracy": Counted(_class_counts, _accuracy),
    "precision": Counted(_class_counts, _averaged(_precision, macro=False)),
    "recall": Counted(_class_counts, _averaged(_recall, macro=False)),
    "f1": Counted(_class_counts, _averaged(_f1, macro=False)),
    "macro_precision": Counted(_class_counts, _averaged(_precision, macro=True)),
    "macro_recall": Counted(_class_counts, _averaged(_recall, macro=True)),
    "macro_f1": Counted(_class_counts, _averaged(_f1, macro=True)),
    "auroc": Ranked(_roc_area),
    "auprc": Ranked(_average_precision),
    "loss": Counted(_losses, _mean, larger_is_better=False),
    "top_3": Counted(_within(3), _mean),
    "top_5": Counted(_within(5), _mean),
    "mrr": Counted(_reciprocal_ranks, _mean),
    "brier": Counted(_squares, _mean, larger_is_better=False),
}


def auprc_of(positive: int) -> Ranked:
    """Average precision of one class."""
    return Ranked(_average_precision, positive)
