"""Settings chosen on validation images: `--tune learning_rate=0.001,0.01;mu=0.1,1`.

Every method plays as many tuning runs as the grid has points, on the training and validation images of a split, whose
test images are not there (`Split.for_tuning`). Where a setting is none of a method's, points are the same for it: it
tries each of its own with more seeds instead. Tuning runs are runs as any others, so a killed command goes on.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from tffapps.app import VALIDATION
from tffapps.data.splits import Split
from tffapps.grids import Grid, parse
from tffapps.results import write_table
from tffapps.runs import key_of
from tffapps.settings import Flags
from tffapps.study import Record, Study, Trial

FILE = "tuning.csv"
Make = Callable[[Flags, Split, int], Iterable[Trial]]  # the trials of a method under flags, on a split, with a seed


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What a method is to be played with on a split."""

    flags: Flags
    values: dict[str, Any]  # those that were chosen; empty: nothing was tuned


class Tuner:
    """Chooses settings for every method and split of a command, and writes down what was tried."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._grid: Grid | None = parse(study.common.tune, study.app) if study.common.tune else None
        self._rows: list[dict[str, Any]] = []

    def choose(self, method: str, split: Split, make: Make) -> Chosen:
        """The settings of the highest mean validation score; of several the first of the grid."""
        if self._grid is None:
            return Chosen(self._study.flags, {})
        tuned_on, metric = split.for_tuning(), ""
        own = self._own_points(make, tuned_on)  # without the settings that are none of the method's
        first = self._study.common.seeds[0]
        seeds = range(first, first + len(self._grid) // len(own))
        rows = []
        for point in own:
            scores = []
            for seed in seeds:
                # One after the other: a frozen base has the weights of the trial that was made last.
                for trial in make(self._study.flags.replaced(**point), tuned_on, seed):
                    metric = trial.evaluator.headline
                    record = self._study.run(dataclasses.replace(trial, bundle=None))  # not a model for use
                    scores.append(self._score(record, metric))
            rows.append({**point, "score": sum(scores) / len(scores)})
        best = max(range(len(rows)), key=lambda number: (rows[number]["score"], -number))
        validated = int((tuned_on.pool.table.split == "test").sum())
        for number, row in enumerate(rows):
            self._rows.append(
                {
                    "method": method,
                    "split": split.name,
                    **{name: row.get(name) for name in self._grid.values},
                    "seeds": " ".join(map(str, seeds)),
                    "validation_images": validated,
                    "metric": metric,
                    "score": row["score"],
                    "taken": number == best,
                    "rule": self.rule,
                }
            )
        return Chosen(self._study.flags.replaced(**own[best]), own[best])

    @property
    def rule(self) -> str:
        when = "in the round of the lowest validation loss" if self._by_validation else "after the last round"
        return f"highest mean validation score {when}; of several the first"

    def write(self, **what_ran: str) -> None:
        if self._rows:
            write_table(self._study.folder / FILE, pd.DataFrame(self._rows), **what_ran)

    @property
    def _by_validation(self) -> bool:
        return self._study.common.select == VALIDATION

    def _own_points(self, make: Make, split: Split) -> list[dict[str, Any]]:
        """The points of the grid that differ for a method, by the settings that its runs depend on: by their keys."""
        assert self._grid is not None
        keys: dict[tuple[Any, ...], tuple[str, ...]] = {}
        for point in self._grid.points():
            trials = make(self._study.flags.replaced(**point), split, self._study.common.seeds[0])
            keys[tuple(point.values())] = tuple(key_of(trial.key()) for trial in trials)
        names = list(self._grid.values)
        matter = [name for place, name in enumerate(names) if _matters(place, keys)]
        own = [tuple((name, value) for name, value in zip(names, point) if name in matter) for point in keys]
        return [dict(point) for point in dict.fromkeys(own)]

    def _score(self, record: Record, metric: str) -> float:
        """On what stands in the place of the test images: the validation images."""
        rounds = record.rounds
        row = rounds["loss"].idxmin() if self._by_validation and rounds["loss"].notna().any() else rounds.index[-1]
        score = float(rounds.loc[row, metric])
        return score if score == score else float("-inf")  # NaN: it has diverged, or a metric is undefined


def _matters(place: int, keys: Mapping[tuple[Any, ...], tuple[str, ...]]) -> bool:
    """Whether a run's key changes with the setting at a place of the points."""
    seen: dict[tuple[Any, ...], set[tuple[str, ...]]] = {}
    for point, key in keys.items():
        seen.setdefault((*point[:place], *point[place + 1 :]), set()).add(key)
    return any(len(each) > 1 for each in seen.values())
