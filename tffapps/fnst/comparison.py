"""One table of all that ran in a federation, each row beside FedAvg as it is (`comparison.csv`), and claims about it.

A row that was chosen on validation images (`choices`) says which methods it was. p-values of a table are corrected for
all its rows together.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Record
from tffapps.evaluation import evidence
from tffapps.evaluation.evidence import Claim, Entry
from tffapps.fnst import METRICS, choices, parts
from tffapps.fnst.parts import BEST, FEDAVG

_KEYS = ("method", "rare", "augmentation")
_SHOWN = ("gain", "gain_low", "gain_high", "p", "p_holm", "verdict", "test")


@dataclasses.dataclass(frozen=True)
class Row:
    """A run, under the name that a table has for it."""

    entry: Entry
    validated: float  # macro F1 of the validation images; NaN without any
    was: str  # the method that trained


def rows_of(records: Sequence[Record], entries: Sequence[Entry], methods: Sequence[str]) -> list[Row]:
    """Of all federations and of all images in one place, and of what was chosen among them."""
    by_folder = dict(zip((str(record.folder) for record in records), entries))
    scores = {id(entry): choices.validated(record) for record, entry in zip(records, entries)}
    own = [
        Row(entry, scores[id(entry)], str(entry.labels["method"]))
        for entry in entries
        if entry.labels["method"] != "separate"
    ]
    validated = {(str(row.entry.labels.get("split", "")), row.entry.labels["seed"], row.entry.labels["rare"], row.was,
                  row.entry.labels["augmentation"]): row.validated for row in own}  # fmt: skip

    def score(entry: Entry, was: str) -> float:
        labels = entry.labels
        place = (str(labels.get("split", "")), labels["seed"], labels["rare"], was)
        return validated.get((*place, labels["augmentation"]), validated.get((*place, ""), np.nan))

    chosen = choices.entries(records, methods, by_folder)
    return own + [Row(entry, score(entry, was), was) for entry, was in chosen]


def table(rows: Sequence[Row]) -> pd.DataFrame:
    """A row for each method and number of rare images: scores, and the gain in macro F1 over FedAvg as it is."""
    entries = [row.entry for row in rows]
    found = evidence.table(entries, _KEYS, METRICS)
    claims = [
        _claim(method, rare, augmentation, FEDAVG, "")
        for method, rare, augmentation in found[list(_KEYS)].itertuples(index=False, name=None)
        if method not in (FEDAVG, "centralised")
    ]
    gains = evidence.claims(entries, claims)
    if len(gains):
        gains[list(_KEYS)] = [claim.split("|") for claim in gains.claim]
        gains["rare"] = gains.rare.astype(float)
        found["rare"] = found.rare.astype(float)
        found = found.merge(gains[[*_KEYS, *_SHOWN]], on=list(_KEYS), how="left")
    groups = collections.defaultdict[tuple, list[Row]](list)
    for row in rows:
        groups[tuple(_blank(row.entry.labels[key]) for key in _KEYS)].append(row)
    own = [groups[tuple(_blank(value) for value in key)] for key in found[list(_KEYS)].itertuples(index=False)]
    return found.assign(
        val_macro_f1=[np.mean([row.validated for row in each]) for each in own], was=[_was(each) for each in own],
        rare=found.rare.astype("Int64"),
    )  # fmt: skip


def rivals(entries: Sequence[Entry]) -> list[Claim]:
    """What gives images a style beside the best control, and the best control beside FedAvg."""
    settings = dict.fromkeys(tuple(entry.labels[key] for key in _KEYS) for entry in entries)
    found = []
    for method, rare, augmentation in settings:
        if not augmentation:
            continue
        if method == BEST:
            found.append(_rival(method, rare, augmentation, FEDAVG, ""))
        elif method == parts.PLUS or BEST in method or parts.styles_needed([method]):
            found.append(_rival(method, rare, augmentation, BEST, augmentation))
    return found


def _rival(method: str, rare: float | None, augmentation: str, baseline: str, of: str) -> Claim:
    claim = _claim(method, rare, augmentation, baseline, of)
    control = baseline == BEST and (method in (parts.FNST, "adain") or BEST in method)
    named = (f"{method} {augmentation}", claim.method[1])
    return dataclasses.replace(claim, method=named, title="macro F1", control=control)


def _claim(method: str, rare: float | None, augmentation: str, baseline: str, of: str) -> Claim:
    rare = None if rare is None or pd.isna(rare) else int(rare)
    return Claim(
        (method, {"method": method, "rare": rare, "augmentation": augmentation}),
        (baseline, {"method": baseline, "rare": rare, "augmentation": of}), "macro_f1",
        f"{method}|{'nan' if rare is None else rare}|{augmentation}",
    )  # fmt: skip


def _blank(value: Any) -> Any:
    return None if value is None or pd.isna(value) else value


def _was(rows: Sequence[Row]) -> str:
    """Which methods a chosen row was, and how often."""
    counts = collections.Counter(row.was for row in rows)
    if len(counts) == 1 and rows[0].was == rows[0].entry.labels["method"]:
        return ""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
