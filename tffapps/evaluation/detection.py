"""Sensitivity and specificity of one class against the rest. Which class is positive is always the caller's choice."""

import functools

import numpy as np
from sklearn import metrics

from tffapps.evaluation import intervals


def sensitivity_at(labels: np.ndarray, probabilities: np.ndarray, *, positive: int, specificity: float) -> float:
    """The largest of the thresholds that leave at least this specificity; NaN without positives or negatives."""
    truth = _truth(labels, probabilities, positive)
    if truth.all() or not truth.any():
        return float("nan")
    false_alarms, hits, _ = metrics.roc_curve(truth, probabilities[:, positive], drop_intermediate=False)
    return float(hits[false_alarms <= 1 - specificity + 1e-12].max())


def threshold_at(labels: np.ndarray, probabilities: np.ndarray, *, positive: int, specificity: float) -> float:
    """The smallest threshold with at least this specificity, for other images; inf if no finite one has it."""
    truth = _truth(labels, probabilities, positive)
    if truth.all():
        raise ValueError(f"all images are of class {positive}: a specificity needs others")
    false_alarms, _, thresholds = metrics.roc_curve(truth, probabilities[:, positive], drop_intermediate=False)
    return float(thresholds[false_alarms <= 1 - specificity + 1e-12].min())


def at_threshold(
    labels: np.ndarray, probabilities: np.ndarray, *, positive: int, threshold: float
) -> tuple[float, float]:
    """Sensitivity and specificity of calling positive what reaches the threshold; NaN for 0/0."""
    truth = _truth(labels, probabilities, positive)
    called = probabilities[:, positive] >= threshold
    sensitivity = float(called[truth].mean()) if truth.any() else float("nan")
    specificity = float((~called[~truth]).mean()) if not truth.all() else float("nan")
    return sensitivity, specificity


def sensitivity_interval(
    labels: np.ndarray,
    probabilities: np.ndarray,
    of_subjects: np.ndarray,
    *,
    positive: int,
    specificity: float,
    draws: int = intervals.DRAWS,
    seed: int = 0,
) -> intervals.Interval:
    """Of `sensitivity_at`, over subjects; the threshold is chosen again in every draw, as it was for the estimate."""
    metric = functools.partial(sensitivity_at, positive=positive, specificity=specificity)
    return intervals.interval(labels, probabilities, of_subjects, metric, draws=draws, seed=seed)


def _truth(labels: np.ndarray, probabilities: np.ndarray, positive: int) -> np.ndarray:
    if not 0 <= positive < probabilities.shape[1]:
        raise ValueError(f"positive class {positive}: expected 0 to {probabilities.shape[1] - 1}")
    return np.asarray(labels) == positive
