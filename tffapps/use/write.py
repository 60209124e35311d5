"""A finished run's bundle, written whole or not at all."""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tffapps.files import replacing
from tffapps.use import arrays, folder
from tffapps.use.bundle import FILE, FORMAT
from tffapps.use.decision import Decision
from tffapps.use.network import names_of
from tffapps.use.novelty import LEAST, Novelty
from tffapps.use.recipe import Recipe, Weights

NAME = "bundle"
_SAMPLE = 512  # training images, and others, that are looked at for where they lie


def write(
    run: Path,
    recipe: Recipe,
    weights: Mapping[str, Weights],
    *,
    system: str,
    decisions: Mapping[str, Decision],
    scores: Any,
    provenance: Mapping[str, Any],
) -> Path:
    """The bundle in a run's folder.

    Args:
      run: the folder of the run.
      recipe: of the trial.
      weights: what the rounds trained, "last" and perhaps "chosen".
      system: that trained it.
      decisions: by model.
      scores: for the model card.
      provenance: for the model card.
    """
    temporary = run / f".{NAME}.{os.getpid()}.tmp"  # by that name the run removes it, should this process be killed
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        models: dict[str, Any] = {}
        for which, values in weights.items():
            halves = recipe.halves(values)
            models[which] = {"base": _base(temporary, run, halves.base), **decisions[which].as_json()}
            arrays.write(temporary / f"{which}.npz", _named(halves.trained))
            _share(temporary / f"{which}.npz", [temporary / f"{other}.npz" for other in models])
        for step in recipe.preprocess.steps:
            for name, values_of_step in step.arrays().items():
                arrays.write(temporary / name, values_of_step)
        about = {
            "format": FORMAT, "system": system, "classes": list(recipe.classes), "network": recipe.network.as_json(),
            "images": recipe.preprocess.as_json(), "models": models, "scores": scores, "provenance": dict(provenance),
            "novelty": _novelty(temporary, recipe, weights),
        }  # fmt: skip
        with replacing(temporary / FILE) as file:
            json.dump(about, file, indent=1, default=str, allow_nan=False)
        folder.write_sums(temporary)
        os.replace(temporary, run / NAME)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return run / NAME


def _base(target: Path, run: Path, values: Sequence[np.ndarray]) -> str:
    """The file of what was frozen: one for all runs beside this one that have the same; a copy of a folder is whole."""
    if not values:
        return ""
    known = hashlib.sha256()
    for value in values:
        known.update(f"{value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    name = f"base-{known.hexdigest()[:16]}.npz"
    if (target / name).exists():  # of another model of this bundle
        return name
    arrays.write(target / name, _named(values))
    _share(target / name, sorted(run.parent.glob(f"*/{NAME}/{name}")))
    return name


def _share(path: Path, others: Sequence[Path]) -> None:
    """Makes one file of this and the first that is equal to it; on a file system without links it stays as it is."""
    for other in others:
        if other != path and not other.is_symlink() and filecmp.cmp(other, path, shallow=False):
            linked = path.with_name(f"{path.name}.tmp")
            try:
                os.link(other, linked)
                os.replace(linked, path)
            except OSError:
                linked.unlink(missing_ok=True)
            return


def _named(values: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip(names_of(len(values)), values))


def _novelty(target: Path, recipe: Recipe, weights: Mapping[str, Weights]) -> dict[str, Any] | None:
    """Writes where images lie; what was measured, for the model card."""
    looks = recipe.classifier
    if looks is None or len(looks.training) < LEAST:
        return None
    training, held_back, _ = looks.sampled(_SAMPLE)
    of_validation = True
    if len(held_back) < LEAST:  # the model has seen these: they seem nearer than new ones would
        held_back, of_validation = training[::4], False
        training = [path for place, path in enumerate(training) if place % 4]
    for which, values in weights.items():
        fitted = Novelty.fit(looks.locate(values, training), looks.locate(values, held_back))
        fitted.save(target / f"novelty-{which}.npz")
        _share(target / f"novelty-{which}.npz", sorted(target.glob("novelty-*.npz")))
    return {"training": len(training), "held_back": len(held_back), "of_validation": of_validation}
