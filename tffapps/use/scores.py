"""What a bundle says of its models' scores on test images: for all and for each client, with 95 % intervals.

Computed from a run's stored predictions when the bundle is written: no row of an image or a subject goes into it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps.evaluation import calibration, intervals, metrics, stored
from tffapps.evaluation.subjects import Metric
from tffapps.runs import Run
from tffapps.use.decision import Decision

ALL = "all"  # the test images of all clients
_NAMES = ("accuracy", "macro_f1")
_AREAS, _FEW_CLASSES = ("auroc",), 10  # an area of many classes takes long, and says little
_DRAWS = 1000


def of_classifier(run: Run, model: str, decision: Decision) -> dict[str, Any]:
    """Rows by client and metric, and how far probabilities can be trusted; nothing where nothing was stored."""
    if not len(stored.read(run.folder, model)):
        return {}
    predictions = stored.read_classifier(run.folder, model)
    labels, probabilities = predictions.labels, predictions.probabilities
    names = (*_NAMES, *(_AREAS if len(predictions.classes) <= _FEW_CLASSES else ()))
    calibrated = decision.calibrated(probabilities)
    sure = decision.sure(calibrated)
    hit = probabilities.argmax(axis=1) == labels
    return {
        "rows": _rows(predictions.table, labels, probabilities, {name: name for name in names}),
        "calibration": {
            "images": len(labels),
            "error": calibration.expected_calibration_error(labels, probabilities),
            "error_calibrated": calibration.expected_calibration_error(labels, calibrated),
            "brier": calibration.brier(labels, probabilities),
            "brier_calibrated": calibration.brier(labels, calibrated),
            "sure": float(sure.mean()),
            "right_of_sure": float(hit[sure].mean()) if sure.any() else None,
        },
    }


def of_segmentation(run: Run, model: str) -> dict[str, Any]:
    """Means over tiles of whatever was measured on each."""
    table = stored.read(run.folder, model)
    names = [name for name in table.columns if name not in stored.KEYS]
    if not len(table) or not names:
        return {}
    values = table[names].to_numpy(np.float64)
    of_columns = {name: metrics.mean_of(column) for column, name in enumerate(names)}
    return {"rows": _rows(table, np.zeros(len(table), np.int64), values, of_columns)}


def _rows(
    table: pd.DataFrame,
    labels: np.ndarray,
    values: np.ndarray,
    named: Mapping[str, Metric],
) -> list[dict[str, Any]]:
    clients, subjects = table["client"].to_numpy(), table["subject"].to_numpy()
    rows = []
    for client in (ALL, *sorted(set(clients))):
        own = np.ones(len(table), bool) if client == ALL else clients == client
        for name, metric in named.items():
            found = _with_interval(labels[own], values[own], subjects[own], metric)
            size = {"images": int(own.sum()), "subjects": len(set(subjects[own]))}
            rows.append({"client": client, "metric": name, **size, **dict(zip(("score", "low", "high"), found))})
    return rows


def _with_interval(
    labels: np.ndarray, values: np.ndarray, subjects: np.ndarray, metric: Metric
) -> Sequence[float | None]:
    if len(set(subjects)) < 2:
        score = metrics.NAMED[metric](labels, values) if isinstance(metric, str) else metric(labels, values)
        return _defined(score), None, None
    found = intervals.interval(labels, values, subjects, metric, draws=_DRAWS)
    return _defined(found.estimate), _defined(found.low), _defined(found.high)


def _defined(value: float) -> float | None:
    """JSON has no NaN."""
    return float(value) if math.isfinite(value) else None
