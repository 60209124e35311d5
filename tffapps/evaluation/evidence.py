"""Tables of scores from stored predictions: every score with its interval, every claim with a paired test.

    Entry    one run: its labels, and what it predicted of its test images
    table    one row for each combination of labels: scores with intervals by subject, how many images and subjects
    claims   one row for each comparison that a system declares before it runs: gain, interval, corrected p, verdict

Runs that were tested with the same images are of the same split, whatever they are called; those of a split differ in
their seed. docs/evaluation.md says which rule decides when.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps.evaluation import clients, intervals, metrics, paired, stored
from tffapps.evaluation.subjects import Run

Labels = Mapping[str, Any]
Metrics = Mapping[str, metrics.Counted | metrics.Ranked]
SUFFIXES = ("", "_low", "_high", "_std")  # of a metric's columns
COLUMNS = ("images", "subjects", "splits", "seeds")  # of every table of scores


@dataclasses.dataclass(frozen=True)
class Entry:
    labels: Labels  # of the run, `seed` among them
    run: Run
    clients: np.ndarray  # (n,) whose image it is
    classes: tuple[str, ...] = ()  # of a classifier


def classifier_entry(labels: Labels, folder: pathlib.Path, *, trained: int = 0, model: str = stored.LAST) -> Entry:
    """Of a classifier's run; `trained`: with how many subjects."""
    found = stored.read_classifier(folder, model)
    run = _run(found.table, found.labels, found.probabilities, labels, trained)
    return Entry(labels, run, found.table["client"].to_numpy(), tuple(found.classes))


def measured_entry(
    labels: Labels, folder: pathlib.Path, columns: Sequence[str], *, trained: int = 0, model: str = stored.LAST
) -> Entry:
    """Of a run whose images have something measured on each: `metrics.mean_of` the columns, by their positions."""
    table = stored.read(folder, model)
    if not len(table) or not set(columns) <= set(table.columns):
        raise stored.damaged(folder / stored.FILE)
    return entry_of(labels, table, columns, trained=trained)


def entry_of(labels: Labels, table: pd.DataFrame, columns: Sequence[str], *, trained: int = 0) -> Entry:
    """Of what was measured, as a run's predictions have it."""
    values = table[list(columns)].to_numpy(np.float64)
    run = _run(table, np.zeros(len(table), np.int64), values, labels, trained)
    return Entry(labels, run, table["client"].to_numpy())


def untrained_entry(
    labels: Labels, images: pd.DataFrame, codes: np.ndarray, probabilities: np.ndarray, classes: Sequence[str], *,
    trained: int = 0,
) -> Entry:  # fmt: skip
    """Of what no run stored; `images` as `identities.identified` makes them, a row each."""
    run = _run(images, codes.astype(np.int64), probabilities, labels, trained)
    return Entry(labels, run, images["client"].to_numpy(), tuple(classes))


def _run(table: pd.DataFrame, codes: np.ndarray, values: np.ndarray, labels: Labels, trained: int) -> Run:
    images = table["image"].to_numpy(str)
    split = hashlib.sha256("\n".join(sorted(set(images))).encode()).hexdigest()[:12]
    return Run(codes, values, table["subject"].to_numpy(str), images, split, int(labels["seed"]), trained)


def of_client(entry: Entry, client: str) -> Entry | None:
    """The part of an entry that is of one client's images; None if there is none."""
    rows = entry.clients == client
    if not rows.any():
        return None
    run = entry.run
    part = Run(
        run.labels[rows], run.probabilities[rows], run.subjects[rows],
        None if run.images is None else run.images[rows], run.split, run.seed, run.train_subjects,
    )  # fmt: skip
    return dataclasses.replace(entry, run=part, clients=entry.clients[rows])


def grouped(entries: Iterable[Entry], by: Sequence[str]) -> dict[tuple[Any, ...], list[Entry]]:
    """In the order in which they come."""
    groups: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(tuple(entry.labels.get(label) for label in by), []).append(entry)
    return groups


def table(
    entries: Iterable[Entry],
    by: Sequence[str],
    names: Sequence[str] | Metrics,
    *,
    worst: str = "",
    mean_client: bool = False,
) -> pd.DataFrame:
    """One row for each combination of the labels `by`.

    Of each metric: `<metric>` (the mean over splits of means over seeds), `<metric>_low` and `_high` (95 %, by
    subject), `<metric>_std` (over runs; blank for one). `worst`: the metric whose worst client is named,
    and with `mean_client` whose mean over clients, each counting once, is given.
    """
    chosen = _metrics(names)
    rows = []
    for key, group in grouped(entries, by).items():
        row: dict[str, Any] = dict(zip(by, key))
        runs = [entry.run for entry in group]
        for name, metric in chosen.items():
            row |= {f"{name}{suffix}": value for suffix, value in _score(runs, metric).items()}
        row |= _counts(runs)
        if worst:
            row |= _worst(group, worst, chosen[worst], mean_client)
        rows.append(row)
    return pd.DataFrame(rows)


def _metrics(names: Sequence[str] | Metrics) -> Metrics:
    return names if isinstance(names, Mapping) else {name: metrics.NAMED[name] for name in names}


def _score(runs: Sequence[Run], metric: metrics.Counted | metrics.Ranked) -> dict[str, float]:
    each = [float(metric(run.labels, run.probabilities)) for run in runs]
    spread = float(np.std(each, ddof=1)) if len(each) > 1 else float("nan")
    if len({subject for run in runs for subject in run.subjects}) < 2:
        return {"": float(np.mean(each)), "_low": np.nan, "_high": np.nan, "_std": spread}
    found = intervals.interval_of_runs(runs, metric)
    return {"": found.estimate, "_low": found.low, "_high": found.high, "_std": spread}


def _counts(runs: Sequence[Run]) -> dict[str, Any]:
    return {
        "images": len({image for run in runs if run.images is not None for image in run.images.tolist()}),
        "subjects": len({subject for run in runs for subject in run.subjects}),
        "splits": len({run.split for run in runs}),
        "seeds": " ".join(str(seed) for seed in sorted({run.seed for run in runs})),
    }


def _worst(
    group: Sequence[Entry], name: str, metric: Callable[[np.ndarray, np.ndarray], float], mean_client: bool
) -> dict[str, Any]:
    parts = [
        clients.per_client(
            entry.run.labels, entry.run.probabilities, np.asarray(entry.run.subjects), entry.clients, metric
        )
        for entry in group
    ]  # fmt: skip
    means = (
        pd.concat(parts).groupby("client", as_index=False).agg({"images": "sum", "subjects": "sum", "score": "mean"})
    )
    mean, worst, lowest = np.nan, "", np.nan
    if means["score"].notna().any():
        spread = clients.spread(means)
        mean, worst, lowest = spread.mean, spread.worst, spread.lowest
    row = {"worst_client": worst, f"worst_client_{name}": lowest}
    return {f"mean_client_{name}": mean, **row} if mean_client else row


@dataclasses.dataclass(frozen=True)
class Claim:
    """A method that should be ahead of another, by one metric: said before anything is run.

    Args:
      method, baseline: names, and the labels that their runs have.
      metric: one of `metrics.NAMED`, or of those given to `claims`.
      title: the metric in words; {} stands for the value of `each`.
      each: a label: one comparison for each of its values.
      same: labels in which the baseline's runs must have the method's value, where they have it at all.
      control: whether the baseline does the same work without the method's idea; else it is the usual rival.
      best: of several baselines by this label, the one with the highest score.
    """

    method: tuple[str, Labels]
    baseline: tuple[str, Labels]
    metric: str
    title: str
    each: str = ""
    same: tuple[str, ...] = ()
    control: bool = False
    best: str = ""


def claims(entries: Sequence[Entry], declared: Iterable[Claim], names: Metrics | None = None) -> pd.DataFrame:
    """One row for each comparison of which there are runs; p-values are corrected for all of them together (Holm)."""
    known: Metrics = {**metrics.NAMED, **(names or {})}
    rows = [row for claim in declared for row in _compared(entries, claim, known[claim.metric])]
    if not rows:
        return pd.DataFrame()
    found = pd.DataFrame(rows)
    found["p_holm"] = paired.holm(found["p"].to_list())
    found["verdict"] = [
        "not comparable" if np.isnan(gain) else paired.verdict(gain, p)
        for gain, p in zip(found["gain"].to_list(), found["p_holm"].to_list())
    ]
    return found


def _compared(
    entries: Sequence[Entry], claim: Claim, metric: metrics.Counted | metrics.Ranked
) -> Iterable[dict[str, Any]]:
    own = [entry for entry in entries if _has(entry.labels, claim.method[1])]
    for value, ours in (grouped(own, [claim.each]) if claim.each else {("",): own}).items():
        if not ours:
            continue
        wanted = {label: ours[0].labels.get(label) for label in claim.same}
        theirs = [
            entry
            for entry in entries
            if _has(entry.labels, claim.baseline[1])
            and all(not entry.labels.get(label) or entry.labels[label] == wanted[label] for label in wanted)
        ]
        for name, group in _rivals(theirs, claim, metric):
            said = str(value[0])
            yield {
                "claim": claim.title.format(said), "metric": claim.metric, "method": claim.method[0].format(said),
                "baseline": name, "role": "control" if claim.control else "baseline",
                **_difference([entry.run for entry in ours], [entry.run for entry in group], metric),
            }  # fmt: skip


def _rivals(
    entries: Sequence[Entry], claim: Claim, metric: metrics.Counted | metrics.Ranked
) -> Iterable[tuple[str, Sequence[Entry]]]:
    if not entries:
        return
    if not claim.best:
        yield claim.baseline[0], entries
        return
    groups = grouped(entries, [claim.best])
    sign = 1 if metric.larger_is_better else -1

    def score(key: tuple[Any, ...]) -> float:
        return sign * float(np.mean([metric(entry.run.labels, entry.run.probabilities) for entry in groups[key]]))

    best = max(groups, key=score)
    yield f"{claim.baseline[0]}: {best[0]}", groups[best]


def _difference(ours: Sequence[Run], theirs: Sequence[Run], metric: metrics.Counted | metrics.Ranked) -> dict[str, Any]:
    """Of the runs that both methods have; `gain` is positive where the method is better."""
    keys = {(run.split, run.seed) for run in ours} & {(run.split, run.seed) for run in theirs}
    first = [run for run in ours if (run.split, run.seed) in keys]
    second = [run for run in theirs if (run.split, run.seed) in keys]
    sides = {"method": _score(first or ours, metric), "baseline": _score(second or theirs, metric)}
    scores = {
        f"{side}_{name or 'score'}": found[key]
        for side, found in sides.items()
        for name, key in (("", ""), ("low", "_low"), ("high", "_high"))
    }
    counts = _counts(first or ours)
    nothing = {"gain": np.nan, "gain_low": np.nan, "gain_high": np.nan, "p": np.nan}
    if not keys or counts["subjects"] < 2:
        return {**scores, **nothing, "test": "images of one subject" if keys else "no images in common", **counts}
    found = paired.compare(first, second, metric)
    sign = 1 if metric.larger_is_better else -1
    low, high = sorted((sign * found.low, sign * found.high))
    return {
        **scores, "gain": sign * found.difference, "gain_low": low, "gain_high": high, "p": found.p,
        "test": found.rule, **counts,
    }  # fmt: skip


def _has(labels: Labels, wanted: Labels) -> bool:
    return all(
        labels.get(label) in value if isinstance(value, tuple) else labels.get(label) == value
        for label, value in wanted.items()
    )
