"""A table's columns and cells as they are shown.

A score and its interval share a cell (a mean and its spread, where there is no interval); the paper's columns come
last, whatever their place in the file; what is the same in every row and says what ran is said once, below; columns
without any value are left out. Numbers of a column have the same number of decimals, unless they are of very different
size.
"""

import dataclasses
from collections.abc import Callable, Sequence

from tffapps.report.sheet import Sheet, number
from tffapps.report.words import BYTES, PERCENT, PLAIN, WHAT_RAN, words

PAPER = "paper_"
_STD, _LOW, _HIGH = "_std", "_low", "_high"
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@dataclasses.dataclass(frozen=True)
class Cell:
    text: str
    spread: str = ""  # "± 0.02" over seeds, or "[0.61, 0.72]", an interval


@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    cells: tuple[Cell, ...]
    numeric: bool = False
    paper: bool = False


@dataclasses.dataclass(frozen=True)
class Grid:
    columns: tuple[Column, ...]
    what_ran: tuple[tuple[str, str], ...]  # name and value
    no_paper: bool = False  # the file has columns for the paper's values, and all are blank

    @property
    def height(self) -> int:
        return len(self.columns[0].cells) if self.columns else 0


def grid(sheet: Sheet, in_bytes: Sequence[str] = ()) -> Grid:
    """`in_bytes`: columns that hold bytes beside those whose name says so."""
    shown: list[Column] = []
    theirs: list[Column] = []
    what_ran: dict[str, str] = {}
    papers = [name for name in sheet.columns if name.startswith(PAPER)]
    for name in sheet.columns:
        values = sheet.values(name)
        if _is_spread(name, sheet) or not any(values):
            continue
        if name in WHAT_RAN and len(set(values)) == 1:
            what_ran[name] = listed(values[0]) if name == "seeds" else values[0]
            continue
        column = _column(sheet, name, name in in_bytes)
        (theirs if name in papers else shown).append(column)
    said = tuple((words(name), what_ran[name]) for name in WHAT_RAN if name in what_ran)
    return Grid((*shown, *theirs), said, bool(papers) and not theirs)


def listed(seeds: str) -> str:
    """`0 1 2` as `0, 1, 2`."""
    return ", ".join(seeds.split())


def _is_spread(name: str, sheet: Sheet) -> bool:
    return any(name.endswith(end) and _whose(name[: -len(end)], sheet) for end in (_STD, _LOW, _HIGH))


def _whose(stem: str, sheet: Sheet) -> str:
    """The column that an interval or a spread is of: `gain` for gain_low, `method_score` for method_low."""
    return next((name for name in (stem, f"{stem}_score") if name in sheet.columns), "")


def _around(sheet: Sheet, name: str) -> list[tuple[float | None, ...]]:
    """Of each row low and high, or the spread alone; nothing where the file has neither."""
    stem = name.removesuffix("_score")
    ends = [stem + _LOW, stem + _HIGH]
    columns = ends if all(end in sheet.columns for end in ends) else [name + _STD]
    if not all(column in sheet.columns for column in columns):
        return []
    return list(zip(*([number(value) for value in sheet.values(column)] for column in columns)))


def _column(sheet: Sheet, name: str, is_bytes: bool) -> Column:
    values = sheet.values(name)
    paper = name.startswith(PAPER)
    base = name[len(PAPER) :] if paper else name
    numbers = [number(value) for value in values]
    is_number = base not in PLAIN and all(found is not None or not value for found, value in zip(numbers, values))
    if not is_number:
        texts = [listed(value) for value in values] if name == "seeds" else values
        return Column(words(base), tuple(Cell(text) for text in texts), False, paper)
    there = [value for value in numbers if value is not None]
    spreads = _around(sheet, name)
    if is_bytes or base in BYTES:
        texts = ["" if value is None else in_units(value) for value in numbers]
        return Column(words(base), tuple(Cell(text) for text in texts), True, paper)
    percent = base in PERCENT and all(0 <= value <= 1 for value in there)
    decimals = _percent_decimals(there) if percent else _decimals(there, values if paper else ())
    if not percent and any(spreads) and decimals == 0:
        decimals = 1  # a mean over seeds, even if all means are whole numbers
    far_apart = not percent and _far_apart(there, decimals)

    def text(value: float | None) -> str:
        if value is None:
            return ""
        if far_apart:
            shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        else:
            shown = f"{value:.{decimals}%}" if percent else f"{value:,.{decimals}f}"
        return shown.replace("-", "−")

    cells = [Cell(text(value)) for value in numbers]
    if spreads:
        cells = [Cell(cell.text, _shown(spread, text) if cell.text else "") for cell, spread in zip(cells, spreads)]
    return Column(words(base), tuple(cells), True, paper)


def _shown(around: tuple[float | None, ...], text: Callable[[float | None], str]) -> str:
    if any(value is None for value in around):
        return ""
    return f"± {text(around[0])}" if len(around) == 1 else f"[{text(around[0])}, {text(around[1])}]"


def _decimals(values: Sequence[float], as_printed: Sequence[str] = ()) -> int:
    """Three or so digits that count, fewer where the paper printed fewer."""
    if all(value == int(value) for value in values):
        return 0
    largest = max(abs(value) for value in values)
    smallest = min(abs(value) for value in values if value)
    enough = next(decimals for least, decimals in ((100, 0), (10, 1), (3, 2), (0, 3)) if largest >= least)
    if largest < 0.1 or (enough == 3 and smallest < 0.001):
        enough = 4
    if as_printed:
        enough = min(enough, max(len(text.partition(".")[2]) for text in as_printed))
    return enough


def _far_apart(values: Sequence[float], decimals: int) -> bool:
    """Would the decimals that do for the largest leave nothing of the smallest? Then each number has its own."""
    whole = all(value == int(value) for value in values)
    return not whole and decimals < 2 and any(0 < abs(value) < 10 ** (1 - decimals) for value in values)


def _percent_decimals(shares: Sequence[float]) -> int:
    return 0 if all(abs(100 * share - round(100 * share)) < 1e-9 for share in shares) else 1


def in_units(size: float) -> str:
    """Bytes in the unit a reader can take in."""
    if size == 0:
        return "0"
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}" if size < 1000 * unit else f"{size / unit:,.0f} {name}"
    return f"{size:.0f} B"
