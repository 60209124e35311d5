"""From a run's folder to its bundle: what was fitted and scored is of its stored predictions."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.use.conftest import CLASSES
from tffapps.errors import UserError
from tffapps.evaluation import calibration, stored
from tffapps.runs import Run
from tffapps.use import bundle, of_run


@pytest.fixture
def run(tmp_path):
    key = {"data": {"images": "abc"}, "initial": {"weights": "random"}, "settings": {"Aggregation": {"dp_delta": 1e-5}}}
    about = {
        "app": "classify",
        "labels": {"method": "fedavg", "seed": 0},
        "versions": {},
        "flags": {"data": "/home/me"},
    }
    with Run(tmp_path, "one", key, about) as opened:
        opened.add_round({"round": 1, "epsilon": 2.5}, [{"client": "north", "examples": 7.0, "ok": 1}])
        yield opened


def predictions(count, seed):
    """Labels that are right more often than not; two images of each subject."""
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet([0.3] * 3, count)
    labels = np.where(rng.random(count) < 0.6, probabilities.argmax(axis=1), rng.integers(0, 3, count))
    rows = {
        "image": [f"{seed}-{number}" for number in range(count)], "subject": [f"s{n // 2}" for n in range(count)],
        "client": ["north" if number % 4 else "south" for number in range(count)], "judge": "",
        "label": [CLASSES[code] for code in labels],
    }  # fmt: skip
    return pd.DataFrame({**rows, **stored.probability_columns(probabilities, list(CLASSES))}), labels, probabilities


def test_a_bundle_has_what_its_stored_predictions_say(run, recipe):
    how, parts = recipe
    test, labels, probabilities = predictions(60, 1)
    validation, val_labels, val_probabilities = predictions(80, 2)
    stored.write(run.folder, {"last": pd.concat([test.assign(part="test"), validation.assign(part="val")])})
    of_run.leave_bundle(run, how, parts.trained.get_weights, None)
    assert of_run.has_bundle(run)
    loaded = bundle.load(run.folder / "bundle")
    temperature = calibration.fit_temperature(val_labels, val_probabilities)
    assert temperature > 1
    assert loaded.decisions["last"].temperature == pytest.approx(temperature, rel=1e-6)
    assert loaded.decisions["last"].images == 80
    rows = {(row["client"], row["metric"]): row for row in loaded.about["scores"]["last"]["rows"]}
    assert {client for client, _ in rows} == {"all", "north", "south"}
    whole = rows["all", "accuracy"]
    assert whole["score"] == pytest.approx((probabilities.argmax(axis=1) == labels).mean())
    assert whole["low"] < whole["score"] < whole["high"] and (whole["images"], whole["subjects"]) == (60, 30)
    calibrated = calibration.with_temperature(probabilities, temperature)
    error = calibration.expected_calibration_error(labels, calibrated)
    assert loaded.about["scores"]["last"]["calibration"]["error_calibrated"] == pytest.approx(error, abs=1e-6)
    assert loaded.about["provenance"]["epsilon"] == 2.5
    assert loaded.about["provenance"]["clients"] == [{"client": "north", "rounds": 1, "examples": 7}]
    text = (run.folder / "bundle" / "bundle.json").read_text()
    assert "/home" not in text and "s3" not in json.loads(text)["provenance"]  # no path, no subject


def test_validation_images_are_predicted_where_nothing_was_stored(run, recipe):
    how, parts = recipe
    of_run.leave_bundle(run, how, parts.trained.get_weights, parts.trained.get_weights())
    loaded = bundle.load(run.folder / "bundle")
    looks = how.classifier
    probabilities = looks.predict(parts.trained.get_weights(), looks.validation)
    expected = max(1.0, calibration.fit_temperature(np.array(looks.validation_labels), probabilities))
    assert loaded.decisions["chosen"].temperature == pytest.approx(expected, rel=1e-4)
    assert loaded.about["scores"] == {"last": {}, "chosen": {}}
    assert (loaded.path / "last.npz").samefile(loaded.path / "chosen.npz")  # equal weights lie there once


def test_a_run_whose_weights_are_gone_says_so(run, recipe, capsys):
    def gone():
        raise UserError("its checkpoint cannot be read")

    of_run.leave_bundle(run, recipe[0], gone, None)
    assert not of_run.has_bundle(run) and "no bundle of one-" in capsys.readouterr().err
