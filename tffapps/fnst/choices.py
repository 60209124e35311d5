"""Which of several methods is best on validation images, split by split: nothing here looks at a test image.

    best-control      of the controls that were run
    fnst-plus         of all that give images a style, with a control beside it or without
    X+best-control    X beside that control

Each is a row of the tables like any other, and says by `parts` which method it was how often.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tffapps import Record, UserError
from tffapps.evaluation.evaluator import VAL
from tffapps.evaluation.evidence import Entry
from tffapps.fnst import parts
from tffapps.fnst.parts import BEST, CONTROLS, PLUS

METRIC = "macro_f1"
Place = tuple[str, int, int, str]  # split, seed, rare, augmentation


def validated(record: Record) -> float:
    """The score on validation images of the round that stands for a run; NaN where it has none."""
    rounds = record.rounds
    number = record.summary.get("round", rounds["round"].iloc[-1]) if record.labels.get("chosen") else None
    row = rounds[rounds["round"] == number].iloc[-1] if number is not None else rounds.iloc[-1]
    return float(row.get(VAL + METRIC, np.nan))


def best_controls(records: Sequence[Record]) -> dict[Place, Record]:
    """For every split, seed, number of rare images and augmentation the best control."""
    return _best(records, lambda record: record["method"] in CONTROLS)


def entries(records: Sequence[Record], methods: Iterable[str], of: Mapping[str, Any]) -> list[tuple[Entry, str]]:
    """Rows that have been chosen, and which method each was.

    Args:
      records: all runs.
      methods: of the command; those that are chosen are looked for.
      of: the entry of each record, by its folder.
    """
    found, controls = list[tuple[Entry, str]](), best_controls(records)
    by_name = {(_place(record), record["method"]): record for record in records}
    for name in methods:
        rest = parts.on_best([name])
        for place, control in controls.items():
            own = by_name.get((place, parts.joined(rest[0], control["method"]))) if rest else control
            if own is not None and (rest or name == BEST):
                found.append((_renamed(of[str(own.folder)], name, place), own["method"]))
        if name == PLUS:
            styled = _best(records, lambda record: bool(parts.styles_needed([record["method"]])))
            found += [(_renamed(of[str(own.folder)], name, place), own["method"]) for place, own in styled.items()]
    return found


def check(methods: Iterable[str], table_has_validation: bool) -> None:
    """Refuses what is chosen on validation images where there are none."""
    asked = [name for name in methods if name == PLUS or BEST in name.split("+")]
    if asked and not table_has_validation:
        raise UserError(f"--methods {asked[0]}: chosen on validation images, of which there are none; give --splits, or"
                        " --select validation")  # fmt: skip
    needs = [name for name in asked if name != PLUS]
    if needs and not set(CONTROLS) & set(methods):
        raise UserError(f"--methods {needs[0]}: no control to choose from; add some of {', '.join(CONTROLS)}")
    if PLUS in asked and not parts.styles_needed(name for name in methods if name != PLUS):
        raise UserError(f"--methods {PLUS}: nothing to choose from; add some of {', '.join(parts.STYLED)}")


def _best(records: Sequence[Record], wanted: Any) -> dict[Place, Record]:
    """A method that multiplies no images, such as a loss, stands in every augmentation of its rare images."""
    found: dict[Place, Record] = {}
    there = [record for record in records if wanted(record) and np.isfinite(validated(record))]
    for place in dict.fromkeys(_place(record) for record in records if record["augmentation"]):
        own = [record for record in there if _place(record)[:3] == place[:3]]
        own = [record for record in own if record["augmentation"] in ("", place[3])]
        if own:
            found[place] = max(own, key=validated)  # of equal ones the first
    return found


def _place(record: Record) -> Place:
    return str(record.labels.get("split", "")), record["seed"], record["rare"], record["augmentation"]


def _renamed(entry: Entry, name: str, place: Place) -> Entry:
    return dataclasses.replace(entry, labels={**entry.labels, "method": name, "augmentation": place[3]})
