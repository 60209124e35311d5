"""The comparisons of headlines.py, worked out from the tables.

Two scores are called level when they differ by no more than the larger of their standard deviations over seeds, or by
less than half a point. A single seed has no spread, and then nothing is called ahead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tffapps.report.headlines import HEADLINES, Chosen, Headline
from tffapps.report.sheet import Sheet, matches, number

if TYPE_CHECKING:
    from tffapps.report.collect import Found, Place

NEGLIGIBLE = 0.005
SMOKE = "profile smoke shows that everything runs; its scores mean nothing"
_HEADER = (
    "application", "data", "metric", "method", "baseline", "gain", "", "seconds", "as good without it", "tables",
)  # fmt: skip
_Row = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Score:
    name: str
    mean: float
    spread: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.spread is None else f" ± {self.spread:.3f}")


@dataclasses.dataclass(frozen=True)
class Comparison:
    metric: str
    method: Score
    baseline: Score
    rivals: tuple[Score, ...]
    paper: tuple[float, float] | None  # the paper's own method and baseline
    files: tuple[str, ...]

    @property
    def gain(self) -> float:
        return self.method.mean - self.baseline.mean

    @property
    def paper_gain(self) -> float | None:
        return None if self.paper is None else self.paper[0] - self.paper[1]

    @property
    def verdict(self) -> str:
        return standing(self.method, self.baseline)

    @property
    def as_good(self) -> tuple[Score, ...]:
        """The baseline and others that do as well as the method without its idea: level with it, or ahead."""
        return tuple(
            other
            for other in (self.baseline, *self.rivals)
            if other.mean >= self.method.mean or standing(self.method, other) == "level"
        )


def standing(one: Score, other: Score) -> str:
    """Is `one` ahead of `other`, behind it, or are they level?"""
    spreads = [score.spread for score in (one, other) if score.spread is not None]
    difference = one.mean - other.mean
    if not spreads:
        return "one seed"
    if abs(difference) <= max(*spreads, NEGLIGIBLE):
        return "level"
    return "ahead" if difference > 0 else "behind"


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def comparisons(system: str, sheets: Mapping[str, Sheet]) -> list[Comparison]:
    """Of one application's tables, by file name; what is not there is not compared."""
    return [found for headline in HEADLINES.get(system, ()) for found in _compared(headline, sheets)]


def _compared(headline: Headline, sheets: Mapping[str, Sheet]) -> list[Comparison]:
    files = tuple(name for name in headline.files if name in sheets)
    rows = [row for name in files for row in sheets[name].rows]
    found = []
    values = _values(headline, rows)
    for value in values:
        wanted = {headline.each: value} if headline.each else {}
        own = _pick(headline, headline.method, [row for row in rows if matches(row, wanted)])
        if own is None:
            continue
        alike = [row for row in rows if _alike(row, own, headline.same)]
        baseline = _pick(headline, headline.baseline, alike)
        if baseline is None:
            continue
        rivals = [(rival, _pick(headline, rival, alike)) for rival in headline.rivals]
        found.append(
            Comparison(
                _title(headline, value, len(values)),
                _score(headline, headline.method.name.format(value), own),
                _score(headline, _named(headline.baseline, baseline), baseline),
                tuple(_score(headline, _named(rival, row), row) for rival, row in rivals if row is not None),
                _paper(headline, alike),
                files,
            )
        )
    return found


def _values(headline: Headline, rows: Sequence[_Row]) -> list[str]:
    if not headline.each:
        return [""]
    own = [row for row in rows if matches(row, headline.method.where)]
    return list(dict.fromkeys(row[headline.each] for row in own if headline.each in row))


def _title(headline: Headline, value: str, several: int) -> str:
    return f"{headline.title}, {value}" if headline.each == "model" and several > 1 else headline.title.format(value)


def _alike(row: _Row, own: _Row, columns: Sequence[str]) -> bool:
    return all(not row.get(column) or row[column] == own.get(column) for column in columns)


def _pick(headline: Headline, chosen: Chosen, rows: Sequence[_Row]) -> _Row | None:
    there = [row for row in rows if matches(row, chosen.where) and number(row.get(headline.metric, "")) is not None]
    if not there:
        return None
    return max(there, key=lambda row: float(row[headline.metric])) if chosen.best else there[-1]


def _named(chosen: Chosen, row: _Row) -> str:
    return f"{chosen.name}: {row['site']}" if chosen.best and row.get("site") else chosen.name


def _score(headline: Headline, name: str, row: _Row) -> Score:
    return Score(name, float(row[headline.metric]), number(row.get(f"{headline.metric}_std", "")))


def _paper(headline: Headline, alike: Sequence[_Row]) -> tuple[float, float] | None:
    """The paper's method and its baseline, from the paper's columns."""
    values = []
    for chosen in (headline.method, headline.baseline):
        where = {**chosen.where, **headline.papers_rows}
        rows = [row for row in alike if matches(row, where) and row.get(headline.paper)]
        values.append(number(rows[-1][headline.paper]) if rows else None)
    method, baseline = values
    return None if method is None or baseline is None else (method, baseline)


def smoke(found: Found) -> bool:
    """Whether some of the tables are of runs that only show that everything runs."""
    return any(
        row.get("profile") == "smoke" for place in found.places for one in place.sheets.values() for row in one.rows
    )


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
    lines: list[tuple[str, ...]] = []
    for one in comparisons(place.system.name, place.sheets):
        lines.append(
            (
                place.system.name,
                place.data,
                one.metric,
                f"{one.method.name} {one.method}",
                f"{one.baseline.name} {one.baseline}",
                f"{one.gain:+.3f}",
                one.verdict,
                f"{place.seconds:.0f}" if place.seconds else "-",
                ", ".join(other.name for other in one.as_good) or "-",
                ", ".join(f"{place.folder}/{name}" for name in one.files),
            )
        )
    return lines
