"""95 % intervals of a score: bootstrap over subjects (Efron and Tibshirani, 1993, chapters 13 and 14).

With several splits, a subject is drawn once for all runs that tested it: its images are no new evidence in the second.
Seeds are too few to draw from: their spread is told beside the interval, which is that of these trained models.
With fewer than about 40 subjects, both methods' intervals are too narrow, BCa's less so.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import stats

from tffapps.evaluation import metrics, subjects
from tffapps.evaluation.subjects import Metric, Run

DRAWS = 2000
LEVEL = 0.95
METHODS = ("percentile", "bca")
_FEWEST, _WEIGHED = 500, 5_000_000  # draws of metrics that are not of sums


@dataclasses.dataclass(frozen=True)
class Interval:
    """A score and where it lies."""

    estimate: float
    low: float
    high: float
    method: str  # one of METHODS
    draws: int  # in which the metric is defined
    subjects: int
    seed_spread: float  # standard deviation over the seeds of a split (pooled over splits); NaN for one seed


def interval(
    labels: np.ndarray,
    probabilities: np.ndarray,
    of_subjects: np.ndarray,
    metric: Metric,
    *,
    method: str = "percentile",
    draws: int = DRAWS,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """That of one run: labels (n,), probabilities (n, classes), subjects (n,)."""
    return interval_of_runs(
        [Run(labels, probabilities, of_subjects)], metric, method=method, draws=draws, level=level, seed=seed
    )


def interval_of_runs(
    runs: Sequence[Run],
    metric: Metric,
    *,
    method: str = "percentile",
    draws: int = DRAWS,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """That of the mean over splits of the mean over seeds."""
    if method not in METHODS:
        raise ValueError(f"interval {method!r}: expected one of {', '.join(METHODS)}")
    scores = subjects.Scores(runs, metric)
    if not isinstance(scores.metric, metrics.Counted):  # each draw is of all images, not of sums
        draws = min(draws, max(_FEWEST, _WEIGHED // sum(len(run.labels) for run in runs)))
    if scores.subjects < 2:
        raise ValueError("images of 1 subject: an interval needs 2 or more")
    once = scores.each(np.ones((1, scores.subjects)))
    estimate = float((once @ subjects.shares(runs))[0])
    random = np.random.default_rng(seed)
    drawn = np.concatenate([scores.mean(weights) for weights in subjects.resampled(scores.subjects, draws, random)])
    without = scores.without_each() if method == "bca" else None
    low, high, defined = limits(drawn, estimate, without, level=level)
    return Interval(estimate, low, high, method, defined, scores.subjects, seed_spread(runs, once[0]))


def limits(drawn: np.ndarray, estimate: float, without: np.ndarray | None, *, level: float) -> tuple[float, float, int]:
    """Low, high and how many draws are defined: BCa with a jackknife `without` (subjects,), else percentile.

    scipy.stats.bootstrap has both methods, but not a jackknife from counts, and answers NaN for one undefined draw.
    """
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return float("nan"), float("nan"), 0
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    if without is not None:
        below = ((drawn < estimate).mean() + (drawn <= estimate).mean()) / 2  # a tie is half below
        distance = np.nanmean(without) - without[np.isfinite(without)]
        scale = 6 * (distance**2).sum() ** 1.5
        if 0 < below < 1 and scale > 0:  # otherwise nothing varies, and there is nothing to correct
            bias = stats.norm.ppf(below)
            acceleration = (distance**3).sum() / scale
            shifted = bias + stats.norm.ppf(ends)
            ends = stats.norm.cdf(bias + shifted / (1 - acceleration * shifted))
    low, high = np.quantile(drawn, ends)
    return float(low), float(high), len(drawn)


def seed_spread(runs: Sequence[Run], scores: np.ndarray) -> float:
    """Standard deviation of scores (runs,) over the seeds of a split, pooled over the splits with several."""
    by_split: dict[str, list[float]] = {}
    for run, score in zip(runs, scores):
        by_split.setdefault(run.split, []).append(score)
    several = [values for values in by_split.values() if len(values) > 1]
    if not several:
        return float("nan")
    squares = sum(np.var(values) * len(values) for values in several)
    return float(np.sqrt(squares / sum(len(values) - 1 for values in several)))


def wilson(count: int, total: int) -> tuple[float, float]:
    """95 % of a share (Wilson 1927)."""
    z, share = 1.96, count / total
    middle = (share + z**2 / (2 * total)) / (1 + z**2 / total)
    reach = z / (1 + z**2 / total) * np.sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
    return max(0.0, float(middle - reach)), min(1.0, float(middle + reach))
