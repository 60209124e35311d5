"""From a finished run to its bundle: weights, what was fitted on its stored predictions, where it comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tffapps.errors import UserError
from tffapps.runs import Run
from tffapps.use import write
from tffapps.use.bundle import CHOSEN, LAST
from tffapps.use.decision import Decision
from tffapps.use.recipe import Recipe, Weights


def has_bundle(run: Run) -> bool:
    return (run.folder / write.NAME).exists()


def leave_bundle(
    run: Run, recipe: Recipe, last: Callable[[], list[np.ndarray]], chosen: list[np.ndarray] | None
) -> None:
    """Writes the bundle of a finished run: the weights it ended with, and those that validation chose, if it did.

    An old run whose checkpoint is damaged has its tables all the same: a line says that it has no bundle.
    """
    try:
        weights: dict[str, Weights] = {LAST: last()}
    except UserError as error:
        print(f"no bundle of {run.folder.name}: {error}", file=sys.stderr)
        return
    if chosen is not None:
        weights[CHOSEN] = chosen
    settings = run.settings()
    write.write(
        run.folder, recipe, weights, system=str(settings["app"]),
        decisions={name: Decision() for name in weights}, scores=None, provenance=_provenance(run, recipe, settings),
    )  # fmt: skip


def _provenance(run: Run, recipe: Recipe, settings: dict[str, Any]) -> dict[str, Any]:
    """Nothing of it names a file or a folder of this machine."""
    key, rounds = settings["key"], run.rounds()
    last = rounds.iloc[-1]
    return {
        "run": run.folder.name,
        "data": recipe.data,
        "fingerprints": key["data"],
        "labels": settings["labels"],
        "initial": {"label": recipe.weights, **key["initial"]},
        "settings": key["settings"],
        "versions": settings["versions"],
        "rounds": int(last["round"]),
        "epsilon": float(last["epsilon"]) if "epsilon" in rounds and np.isfinite(last["epsilon"]) else None,
        "clients": _clients(run.clients()),
    }


def _clients(reports: pd.DataFrame) -> list[dict[str, Any]]:
    """Name, rounds that it took part in, and examples that it trained on in the last of them."""
    if "client" not in reports:
        return []
    found = []
    for name, part in reports.groupby("client", sort=True):
        examples = part["examples"].iloc[-1] if "examples" in part else None
        found.append(
            {"client": str(name), "rounds": len(part), "examples": None if examples is None else int(examples)}
        )
    return found
