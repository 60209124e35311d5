"""From a finished run to its bundle: weights, what was fitted on its stored predictions, where it comes from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tffapps.errors import UserError
from tffapps.evaluation import stored
from tffapps.evaluation.stored import CHOSEN, LAST
from tffapps.runs import Run
from tffapps.use import decision, scores, write
from tffapps.use.decision import Decision
from tffapps.use.recipe import Looks, Recipe, Weights

_SAMPLE = 2000  # validation images that a temperature is fitted on


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
    settings, decisions = run.settings(), dict[str, Decision]()
    found: dict[str, Any] = {}
    for name, values in weights.items():
        decisions[name] = _decision(run, name, recipe.classifier, values)
        if recipe.classifier is None:
            found[name] = scores.of_segmentation(run, name)
        else:
            found[name] = scores.of_classifier(run, name, decisions[name])
    write.write(
        run.folder, recipe, weights, system=str(settings["app"]), decisions=decisions, scores=found,
        provenance=_provenance(run, recipe, settings),
    )  # fmt: skip


def _decision(run: Run, model: str, looks: Looks | None, weights: Weights) -> Decision:
    """From validation predictions that the run has stored, or else of validation images that it has not looked at."""
    if looks is None:
        return Decision()
    if len(stored.read(run.folder, model, stored.VALIDATION)):
        known = stored.read_classifier(run.folder, model, stored.VALIDATION)
        return Decision.fit(known.labels, known.probabilities)
    _, paths, labels = looks.sampled(_SAMPLE)
    return Decision.fit(labels, looks.predict(weights, paths)) if len(paths) >= decision.LEAST else Decision()


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
        examples = part["examples"].iloc[-1] if "examples" in part else np.nan  # a secure sum does not tell
        known = int(examples) if np.isfinite(examples) else None
        found.append({"client": str(name), "rounds": len(part), "examples": known})
    return found
