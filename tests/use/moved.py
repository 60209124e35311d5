"""A bundle that has been moved: does it predict what the run that left it has predicted?"""

from __future__ import annotations

import hashlib
import pathlib
import shutil

import numpy as np
import pytest

from tests.applications import working_in
from tffapps.evaluation import calibration, stored
from tffapps.use import bundle as bundles
from tffapps.use.predict import Predictor


def check_moved(folder: pathlib.Path, data: pathlib.Path, target: pathlib.Path) -> None:
    """`folder` is a run's bundle, `data` holds the images it was trained and tested on, `target` is made."""
    run = folder.parent
    shutil.copytree(folder, target / "bundle")
    wanted = {model: stored.read(run, model).drop_duplicates("image") for model in ("last", "chosen")}
    paths = _copies(set(wanted["last"]["image"]), data, target / "images")
    hidden = data.rename(data.with_name("hidden"))
    try:
        with working_in(target):
            bundle = bundles.load("bundle")
            for model in bundle.decisions:
                if bundle.segments:
                    _check_segments(bundle, model, run)
                else:
                    _check_probabilities(bundle, model, paths, wanted[model])
    finally:
        hidden.rename(data)


def _copies(names: set[str], data: pathlib.Path, target: pathlib.Path) -> dict[str, str]:
    """The tested images by their pseudonyms, which are the beginnings of their hashes, as other files."""
    target.mkdir(parents=True)
    copies = {}
    for path in data.rglob("*"):
        if path.is_file() and "cache" not in path.relative_to(data).parts:
            name = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            if name in names:
                copies[name] = shutil.copy(path, target / f"{name}{path.suffix}")
    return copies


def _check_probabilities(bundle, model, paths, wanted) -> None:
    rows = wanted[wanted["image"].isin(list(paths))]
    assert len(rows) >= 2, "the tested images are not found"
    expected = rows[[f"p_{label}" for label in bundle.classes]].to_numpy()
    answers = list(Predictor(bundle, model).of_files([paths[name] for name in rows["image"]]))
    assert [answer.problem for answer in answers] == [""] * len(rows)
    np.testing.assert_allclose([answer.probabilities for answer in answers], expected, atol=1e-5)
    decision = bundle.decisions[model]
    if decision.images:
        expected = calibration.with_temperature(expected, decision.temperature)
    np.testing.assert_allclose([answer.calibrated for answer in answers], expected, atol=1e-4)
    assert all(answer.distance is None or answer.distance >= 0 for answer in answers)


def _check_segments(bundle, model, run) -> None:
    with pytest.raises(Exception, match="tffapps segment"):
        Predictor(bundle, model)
    (file,) = run.glob("checkpoint-*.npz" if model == "last" else "kept-*-best.npz")
    with np.load(file) as content:
        for number, value in enumerate(bundle.model(model).get_weights()):
            np.testing.assert_array_equal(value, content[f"a{number}"])
