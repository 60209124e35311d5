"""Seconds and bytes of each method, from the records of its finished runs (`runs/*/rounds.csv`).

Runs are kept when settings change: only those with the profile of the tables count. Those of version 0.1.0, whose
settings.json has no labels, do not.
"""

import dataclasses
import json
import pathlib
import re

from tffapps.report.sheet import Broken, Sheet, number, read

# What a run's folder is called: its method and more, its seed, perhaps more, its key.
_NAME = re.compile(r"-seed\d+|-[0-9a-f]{8}$")


@dataclasses.dataclass(frozen=True)
class Run:
    name: str  # without its seed
    rounds: int
    seconds: float
    bytes_up: float
    bytes_down: float
    peak_memory_mb: float


def runs(folder: pathlib.Path, profile: str) -> tuple[list[Run], list[str]]:
    """An application's finished runs, and a line for each record that cannot be read."""
    found, problems = [], []
    for record in sorted(folder.glob("runs/*/rounds.csv")):
        try:
            if (record.parent / "finished.json").exists() and _profile(record.parent / "settings.json") == profile:
                found.append(_run(_NAME.sub("", record.parent.name), read(record)))
        except Broken as error:
            problems.append(f"runs/{record.parent.name}: {error}")
    return found, problems


def as_sheet(found: list[Run]) -> Sheet:
    """One row for each method: means over its runs."""
    by_name: dict[str, list[Run]] = {}
    for run in found:
        by_name.setdefault(run.name, []).append(run)
    rows = []
    for name, same in by_name.items():
        count = len(same)
        rounds = sum(run.rounds for run in same)
        seconds, up, down = (sum(getattr(run, of) for run in same) for of in ("seconds", "bytes_up", "bytes_down"))
        rows.append(
            {
                "run": name,
                "runs": str(count),
                "rounds": f"{rounds / count:g}",
                "seconds": f"{seconds / count:.2f}",
                "seconds_per_round": f"{seconds / max(rounds, 1):.3f}",
                "bytes_up": f"{up / count:.0f}",
                "bytes_down": f"{down / count:.0f}",
                "peak_memory_mb": f"{max(run.peak_memory_mb for run in same):.0f}",
            }
        )
    return Sheet(tuple(rows[0]) if rows else (), tuple(rows))


def _profile(settings: pathlib.Path) -> str | None:
    """The profile that a run had; None: it is one of version 0.1.0."""
    try:
        content = json.loads(settings.read_text())
        return str(content["flags"]["profile"]) if "labels" in content else None
    except (OSError, ValueError, KeyError, TypeError):
        raise Broken("settings.json cannot be read") from None


def _run(name: str, sheet: Sheet) -> Run:
    def total(column: str) -> float:
        return sum(number(row.get(column, "")) or 0.0 for row in sheet.rows)

    peak = max((number(row.get("peak_memory_mb", "")) or 0.0 for row in sheet.rows), default=0.0)
    return Run(name, len(sheet.rows), total("seconds"), total("bytes_up"), total("bytes_down"), peak)
