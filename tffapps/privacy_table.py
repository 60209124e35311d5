"""`privacy.csv` of a system's results: what each run has spent, and what all of them have spent together.

Everything is read from the ledgers in the run folders, also of earlier commands and of other settings: whoever has
seen their results has seen them all. Runs without a ledger promised nothing; their number is in the last row.
"""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterable
from typing import Any

import pandas as pd

from tffapps.files import replacing
from tffapps.privacy.accounting import for_unit, spent
from tffapps.privacy.ledger import Ledger
from tffapps.privacy.release import UNITS, Release
from tffapps.runs import LEDGER

FILE = "privacy.csv"
TOGETHER, UNPROTECTED = "all runs together", "runs without protection"
_STAGE = ("side", "study", "variant", "model", "split", "site", "fold", "precision", "augmentation", "block")


def write(folder: pathlib.Path, delta: float) -> None:
    """Of all runs in a system's folder."""
    table = table_of(folder, delta)
    with replacing(folder / FILE) as file:
        table.to_csv(file, index=False)


def table_of(folder: pathlib.Path, delta: float) -> pd.DataFrame:
    """A row for each run and unit (whole clients, single images), then one for all together."""
    ledgers, without = dict[pathlib.Path, list[Release]](), 0
    for settings in sorted((folder / "runs").glob("*/settings.json")):
        releases = Ledger(settings.parent / LEDGER).releases()
        if releases:
            ledgers[settings.parent] = releases
        else:
            without += 1
    rows = []
    for unit in UNITS:
        if not any(release.unit == unit for releases in ledgers.values() for release in releases):
            continue
        hidden = {run: for_unit(releases, unit) for run, releases in ledgers.items()}
        of_unit = {run: _row(releases, delta, unit) for run, releases in hidden.items() if _own(releases, unit)}
        rows += [{**_labels(run), **row} for run, row in of_unit.items()]
        together = [release for releases in hidden.values() for release in releases]
        sums = {name: sum(row[name] for row in of_unit.values()) for name in ("rounds", "again")}
        rows.append({"run": TOGETHER, **_row(together, delta, unit), **sums, "runs": len(hidden)})
    if without:
        rows.append({"run": UNPROTECTED, "runs": without, "epsilon_rdp": float("inf"), "epsilon_pld": float("inf")})
    return pd.DataFrame(rows)


def _labels(run: pathlib.Path) -> dict[str, Any]:
    try:
        labels = dict(json.loads((run / "settings.json").read_text())["labels"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        labels = {}
    stage = " ".join(str(labels[name]) for name in _STAGE if labels.get(name))
    return {"run": run.name, "method": labels.get("method", ""), "stage": stage, "seed": labels.get("seed", "")}


def _row(releases: list[Release], delta: float, unit: str) -> dict[str, Any]:
    """`again`: updates of a client that were computed more than once, after a crash or because another one failed."""
    own = _own(releases, unit)
    by = collections.Counter((release.what, name) for release in own for name in release.by or ("",))
    again = collections.Counter[str]()
    for (_, name), count in by.items():
        again[name] += count - 1
    found = spent(releases, delta, unit)
    return {
        "unit": unit,
        "clients": len(again),
        "rounds": len({what for what, _ in by}),
        "again": max(again.values(), default=0),
        "noise": _shown(release.noise for release in own),
        "sampling": _shown(release.sampling for release in own),
        "delta": delta,
        "epsilon_rdp": round(found.rdp, 4),
        "epsilon_pld": round(found.pld, 4),
        "runs": 1,
    }


def _own(releases: Iterable[Release], unit: str) -> list[Release]:
    return [release for release in releases if release.unit == unit]


def _shown(values: Iterable[float]) -> str:
    return " ".join(f"{value:g}" for value in sorted(set(values)))
