"""Is one method better than another on the same images? A difference, its interval, a p-value and a verdict.

Which rule decides (`Comparison.rule`):

- SWAP, where no subject was tested in two splits (one split, or the folds of a cross-validation): the methods change
  places for whole subjects, in all runs at once. The p-value is the share of 2^subjects such swaps, sampled, whose
  difference is as large; the interval is the bootstrap over subjects. Both speak of these trained models: where
  training again would change the score, a lucky seed is a difference like any other, and only several splits tell
  the methods apart from their models.
- CORRECTED_T, where subjects were tested in several splits: a t-test on the difference of each split, its variance
  times 1/splits + tested/trained subjects, because splits that overlap are not independent (Nadeau and Bengio,
  Inference for the generalization error, Machine Learning 52, 2003). Interval and p-value speak of the method on
  training sets of this size; they are cautious where models of different splits err on different images. They need
  `Run.train_subjects`. Where the splits' differences are all equal, they tell no variance, and SWAP decides.

Seeds of a split are averaged before either.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import stats

from tffapps.evaluation import intervals, metrics, subjects
from tffapps.evaluation.subjects import Metric, Run

SWAP = "swap by subject"
CORRECTED_T = "corrected resampled t"
_FEWEST, _SORTED = 500, 2_000_000  # draws of metrics that need a new order of the images in each
_AT_ONCE = 1_000_000  # probabilities of draws that are sorted together
_TIE = 1e-12  # differences this close are equal: sums in another order


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The first method's score less the second's."""

    difference: float
    low: float
    high: float
    p: float  # two-sided, before any correction for several comparisons
    rule: str  # SWAP or CORRECTED_T
    splits: int
    subjects: int


def compare(
    first: Sequence[Run],
    second: Sequence[Run],
    metric: Metric,
    *,
    rule: str | None = None,
    draws: int = intervals.DRAWS,
    level: float = intervals.LEVEL,
    seed: int = 0,
) -> Comparison:
    """Of runs on the same images, split by split and seed by seed; `rule` overrides what the splits call for."""
    pair = _Pair(first, second, metric)
    if rule not in (None, SWAP, CORRECTED_T):
        raise ValueError(f"rule {rule!r}: expected {SWAP!r} or {CORRECTED_T!r}")
    chosen = rule or (CORRECTED_T if pair.overlap else SWAP)
    by_split = pair.by_split()
    if chosen == CORRECTED_T and len(by_split) < 2:
        raise ValueError(f"{CORRECTED_T} needs 2 or more splits")
    if chosen == CORRECTED_T and np.ptp(by_split) > _TIE:
        low, high, p = corrected_t(by_split, pair.test_to_train(), level=level)
    else:
        chosen = SWAP
        low, high = pair.interval(draws, level, seed)
        p = pair.swap_p(draws, seed)
    return Comparison(float(by_split.mean()), low, high, p, chosen, len(by_split), pair.first.subjects)


def bootstrap_interval(
    first: Sequence[Run],
    second: Sequence[Run],
    metric: Metric,
    *,
    draws: int = intervals.DRAWS,
    level: float = intervals.LEVEL,
    seed: int = 0,
) -> tuple[float, float]:
    """Of the difference: percentiles of both methods on the same drawn subjects, in all splits at once."""
    return _Pair(first, second, metric).interval(draws, level, seed)


def corrected_t(
    differences: np.ndarray, test_to_train: float, *, level: float = intervals.LEVEL
) -> tuple[float, float, float]:
    """Low, high and two-sided p of the mean of differences (splits,), which must not all be equal."""
    count = len(differences)
    error = np.sqrt((1 / count + test_to_train) * np.var(differences, ddof=1))
    mean = differences.mean()
    low, high = stats.t.interval(level, count - 1, loc=mean, scale=error)
    return float(low), float(high), float(2 * stats.t.sf(abs(mean) / error, count - 1))


def holm(p_values: Sequence[float]) -> np.ndarray:
    """p-values corrected for being several in one table (Holm, 1979), in their order; NaN is not counted."""
    found = np.asarray(p_values, np.float64)
    order = np.argsort(found)[: np.isfinite(found).sum()]  # NaN is sorted last
    result = np.full(len(found), np.nan)
    result[order] = np.minimum(1, np.maximum.accumulate(found[order] * np.arange(len(order), 0, -1)))
    return result


def verdict(difference: float, corrected_p: float, *, level: float = intervals.LEVEL) -> str:
    """ahead, behind or level: the first method's place, where a larger score is better."""
    if not corrected_p <= 1 - level + _TIE or difference == 0:
        return "level"
    return "ahead" if difference > 0 else "behind"


class _Pair:
    """Two methods' runs in the same order of runs and images."""

    def __init__(self, first: Sequence[Run], second: Sequence[Run], metric: Metric) -> None:
        ours, theirs = _by_split_and_seed(first, "first"), _by_split_and_seed(second, "second")
        for key in sorted({*ours, *theirs}):
            if key not in ours or key not in theirs:
                side = "first" if key in ours else "second"
                raise ValueError(f"split {key[0]!r}, seed {key[1]}: only the {side} method has a run of it")
        pairs = [_aligned(ours[key], theirs[key]) for key in sorted(ours)]
        self.first = subjects.Scores([a for a, _ in pairs], metric)
        self.second = subjects.Scores([b for _, b in pairs], metric)
        tested: dict[str, set] = {}
        for run in self.first.runs:
            tested.setdefault(run.split, set()).update(np.asarray(run.subjects).tolist())
        self._tested = tested
        self.overlap = sum(len(each) for each in tested.values()) > self.first.subjects

    def by_split(self) -> np.ndarray:
        """(splits,) the difference in each, a mean over its seeds."""
        once = np.ones((1, self.first.subjects))
        each = (self.first.each(once) - self.second.each(once))[0]
        splits = np.array([run.split for run in self.first.runs])
        return np.array([each[splits == split].mean() for split in self._tested])

    def test_to_train(self) -> float:
        """How many subjects were tested for each that was trained with, by the method that has fewer: a mean over the
        splits."""
        pairs = zip(self.first.runs, self.second.runs)
        trained = {ours.split: min(ours.train_subjects, theirs.train_subjects) for ours, theirs in pairs}
        for split, count in trained.items():
            if count < 1:
                raise ValueError(f"split {split!r}: {CORRECTED_T} needs the number of its training subjects")
        return float(np.mean([len(self._tested[split]) / count for split, count in trained.items()]))

    def interval(self, draws: int, level: float, seed: int) -> tuple[float, float]:
        count = self.first.subjects
        batches = subjects.resampled(count, draws, np.random.default_rng(seed))
        drawn = np.concatenate([self.first.mean(weights) - self.second.mean(weights) for weights in batches])
        low, high, _ = intervals.limits(drawn, 0.0, None, level=level)
        return low, high

    def swap_p(self, draws: int, seed: int) -> float:
        """NaN where the metric is undefined."""
        once = np.ones((1, self.first.subjects))
        observed = abs(float((self.first.mean(once) - self.second.mean(once))[0]))
        if not np.isfinite(observed):
            return float("nan")
        random = np.random.default_rng(seed)
        if not isinstance(self.first.metric, metrics.Counted):  # each draw is sorted anew
            draws = min(draws, max(_FEWEST, _SORTED // sum(len(run.labels) for run in self.first.runs)))
        batches = subjects.swapped(self.first.subjects, draws, random)
        found = np.concatenate([self._difference(swap) for swap in batches])
        found = found[np.isfinite(found)]
        return float((1 + (np.abs(found) >= observed - _TIE).sum()) / (1 + len(found)))  # the one observed counts too

    def _difference(self, swap: np.ndarray) -> np.ndarray:
        """(draws,) after the methods changed places for the subjects marked in swap (draws, subjects)."""
        share = subjects.shares(self.first.runs)
        result = np.zeros(len(swap))
        for position, index in enumerate(self.first.index):
            result += share[position] * self._change(position, index, swap)
        return result

    def _change(self, position: int, index: np.ndarray, swap: np.ndarray) -> np.ndarray:
        """(draws,) of one run: the first method's score less the second's."""
        metric = self.first.metric
        if isinstance(metric, metrics.Counted):
            ours, theirs = self.first.sums[position], self.second.sums[position]
            moved = swap @ (theirs - ours)
            return metric.of(ours.sum(axis=0) + moved) - metric.of(theirs.sum(axis=0) - moved)
        labels = np.asarray(self.first.runs[position].labels)
        if len(labels) != len(self.second.runs[position].labels):
            raise ValueError("images that several models judge can be compared by metrics of counts alone")
        a, b = self.first.runs[position].probabilities, self.second.runs[position].probabilities
        exchange = (swap[:, index] > 0)[..., None]
        if not isinstance(metric, metrics.Ranked):
            return np.array([metric(labels, np.where(z, b, a)) - metric(labels, np.where(z, a, b)) for z in exchange])
        parts = np.array_split(exchange, max(1, len(exchange) * np.size(a) // _AT_ONCE))
        return np.concatenate(
            [metric.of_many(labels, np.where(z, b, a)) - metric.of_many(labels, np.where(z, a, b)) for z in parts]
        )


def _by_split_and_seed(runs: Sequence[Run], side: str) -> dict[tuple[str, int], Run]:
    found: dict[tuple[str, int], Run] = {}
    for run in runs:
        if (run.split, run.seed) in found:
            raise ValueError(f"the {side} method has two runs of split {run.split!r}, seed {run.seed}")
        found[run.split, run.seed] = run
    return found


def _aligned(first: Run, second: Run) -> tuple[Run, Run]:
    """Both in the order of the images' names, or a ValueError with the first difference."""
    of_run = f"split {first.split!r}, seed {first.seed}"
    if first.images is None or second.images is None:
        raise ValueError(f"{of_run}: a paired comparison needs the images' names")
    first, second = _sorted(first), _sorted(second)
    (ours, a), (theirs, b) = (np.unique(np.asarray(run.images), return_index=True) for run in (first, second))
    alone = np.setxor1d(ours, theirs)
    if len(alone):
        side = "first" if alone[0] in ours else "second"
        raise ValueError(f"{of_run}: image {str(alone[0])!r} was tested with the {side} method alone")
    for what in ("labels", "subjects"):
        for image in ours[np.asarray(getattr(first, what))[a] != np.asarray(getattr(second, what))[b]]:
            raise ValueError(f"{of_run}: image {str(image)!r} has other {what} in the second method's predictions")
    if np.shape(first.probabilities)[1] != np.shape(second.probabilities)[1]:
        columns = [np.shape(run.probabilities)[1] for run in (first, second)]
        raise ValueError(f"{of_run}: {columns[0]} classes of the first method, {columns[1]} of the second")
    return first, second


def _sorted(run: Run) -> Run:
    """In the order of the images' names. Where several models judge images, each of them judges every image."""
    uneven = np.asarray(run.images)[run.times != run.times.min()]
    if len(uneven):
        raise ValueError(f"split {run.split!r}, seed {run.seed}: image {str(uneven[0])!r} occurs twice")
    order = np.argsort(np.asarray(run.images), kind="stable")
    return dataclasses.replace(
        run,
        labels=np.asarray(run.labels)[order],
        probabilities=np.asarray(run.probabilities)[order],
        subjects=np.asarray(run.subjects)[order],
        images=np.asarray(run.images)[order],
    )
