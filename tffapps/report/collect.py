"""Everything a results folder holds, read once: tables, figures, costs, and what is wrong with them."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from tffapps import systems
from tffapps.report import costs
from tffapps.report.pictures import Picture, picture
from tffapps.report.section import BENCHMARKS, Section
from tffapps.report.sheet import Broken, Sheet, read

STANDIN = "stand-in"
REAL = "real"  # the folder for runs on real images, beside those of the default run
_Thing = TypeVar("_Thing")


@dataclasses.dataclass(frozen=True)
class Place:
    """One application's folder."""

    system: Section
    folder: str  # below the results: `fnst`, `real/fnst`
    sheets: dict[str, Sheet]
    pictures: dict[str, Picture]
    broken: dict[str, str]  # file and what is wrong with it
    runs: list[costs.Run]

    @property
    def data(self) -> str:
        """What its tables say they are of."""
        return _first(self.sheets, "data")

    @property
    def is_real(self) -> bool:
        return self.data not in ("", STANDIN)

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs)

    @property
    def empty(self) -> bool:
        return not (self.sheets or self.pictures or self.broken)


@dataclasses.dataclass(frozen=True)
class Found:
    systems: Sequence[Section]
    places: Sequence[Place]
    benchmarks: Place
    problems: Sequence[str]  # one line each

    def of(self, system: Section) -> list[Place]:
        return [place for place in self.places if place.system is system]


def collect(folder: pathlib.Path) -> Found:
    sections = [app.part("page").PAGE for app in systems.every()]
    places = [_place(folder, system, name) for system in sections for name in (system.name, f"{REAL}/{system.name}")]
    benchmarks = _place(folder, BENCHMARKS, BENCHMARKS.name)
    problems = [f"{place.folder}/{name} {why}" for place in (*places, benchmarks) for name, why in place.broken.items()]
    return Found(sections, [place for place in places if not place.empty], benchmarks, problems)


def _place(root: pathlib.Path, system: Section, name: str) -> Place:
    folder = root / name
    broken: dict[str, str] = {}
    sheets = _read(folder, "*.csv", read, broken)
    pictures = _read(folder, "*.png", picture, broken)
    runs, problems = costs.runs(folder, _first(sheets, "profile"))
    for line in problems:
        path, _, why = line.partition(": ")
        broken[path] = why
    return Place(system, name, sheets, pictures, broken, runs)


def _read(
    folder: pathlib.Path, pattern: str, reader: Callable[[pathlib.Path], _Thing], broken: dict[str, str]
) -> dict[str, _Thing]:
    found = {}
    for path in sorted(folder.glob(pattern)):
        if path.name.startswith("."):
            continue
        try:
            found[path.name] = reader(path)
        except Broken as error:
            broken[path.name] = str(error)
    return found


def _first(sheets: dict[str, Sheet], column: str) -> str:
    """The value in the first row that has this column."""
    return next((sheet.rows[0][column] for sheet in sheets.values() if sheet.rows and column in sheet.columns), "")
