"""The claims of every system, as its runs decided them: read from claims.csv, nothing is worked out again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tffapps.report.sheet import Sheet, number

if TYPE_CHECKING:
    from tffapps.report.collect import Found, Place

CLAIMS = "claims.csv"
AHEAD, BEHIND, LEVEL = "ahead", "behind", "level"
SMOKE = "profile smoke shows that everything runs; its scores mean nothing"
_HEADER = ("application", "data", "metric", "method", "against", "gain", "95 % interval", "", "images", "subjects")
_Row = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Score:
    name: str
    mean: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + interval(self.low, self.high, before=" ")


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One row of claims.csv."""

    metric: str
    method: Score
    baseline: Score
    control: bool  # the baseline does the same work without the method's idea
    gain: float | None  # None: they were not tested on the same images
    low: float | None
    high: float | None
    p: float | None  # corrected for all rows of the table
    verdict: str
    images: str
    subjects: str
    splits: str
    test: str


def interval(low: float | None, high: float | None, before: str = "") -> str:
    """[0.61, 0.72], or nothing."""
    return "" if low is None or high is None else f"{before}[{signless(low)}, {signless(high)}]"


def signless(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def comparisons(sheets: Mapping[str, Sheet]) -> list[Comparison]:
    """Of one application's tables, by file name; rows that cannot be understood are left out."""
    sheet = sheets.get(CLAIMS)
    found = [_comparison(row) for row in sheet.rows] if sheet else []
    return [one for one in found if one is not None]


def _comparison(row: _Row) -> Comparison | None:
    def value(name: str) -> float | None:
        return number(row.get(name, ""))

    method, baseline = value("method_score"), value("baseline_score")
    if method is None or baseline is None:
        return None
    return Comparison(
        row.get("claim", ""),
        Score(row.get("method", ""), method, value("method_low"), value("method_high")),
        Score(row.get("baseline", ""), baseline, value("baseline_low"), value("baseline_high")),
        row.get("role") == "control",
        value("gain"),
        value("gain_low"),
        value("gain_high"),
        value("p_holm"),
        row.get("verdict", ""),
        *(row.get(name, "") for name in ("images", "subjects", "splits", "test")),
    )


def smoke(found: Found) -> bool:
    """Whether some of the tables are of runs that only show that everything runs."""
    return any(
        row.get("profile") == "smoke" for place in found.places for one in place.sheets.values() for row in one.rows
    )


def tally(all_of_them: Sequence[Comparison]) -> str:
    """How many claims hold: "3 ahead, 7 level, 1 behind"."""
    verdicts = [one.verdict for one in all_of_them]
    counts = [(name, verdicts.count(name)) for name in (AHEAD, LEVEL, BEHIND)]
    counts.append(("not comparable", len(verdicts) - sum(count for _, count in counts)))
    return ", ".join(f"{count} {name}" for name, count in counts if count)


def in_text(found: Found) -> str:
    """The summary as plain text."""
    rows: list[tuple[str, ...]] = [_HEADER]
    for place in found.places:
        rows += _lines(place)
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    if len(rows) == 1:
        lines = ["no tables to sum up"]
    if smoke(found):
        lines.append(SMOKE)
    there = {place.system.name for place in found.places if place.sheets}
    lines += [f"{one.name}: no tables; `{one.command}` makes them" for one in found.systems if one.name not in there]
    return "\n".join(lines)


def _lines(place: Place) -> list[tuple[str, ...]]:
    return [
        (
            place.system.name,
            place.data,
            one.metric,
            f"{one.method.name} {one.method.mean:.3f}",
            f"{one.baseline.name} {one.baseline.mean:.3f}",
            "-" if one.gain is None else f"{one.gain:+.3f}",
            interval(one.low, one.high).replace("−", "-") or "-",
            one.verdict,
            one.images,
            one.subjects,
        )
        for one in comparisons(place.sheets)
    ]
