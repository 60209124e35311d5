"""Calibration by hand, against scikit-learn, and a temperature that is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn import metrics

from tffapps.evaluation import metrics as of_images
from tffapps.evaluation.calibration import (
    brier,
    expected_calibration_error,
    fit_temperature,
    reliability,
    with_temperature,
)

CONFIDENCE = np.array([0.6, 0.7, 0.8, 1.0])
PROBABILITIES = np.stack([CONFIDENCE, 1 - CONFIDENCE], axis=1)
LABELS = np.array([0, 1, 0, 0])


def test_equal_mass_by_hand():
    table = reliability(LABELS, PROBABILITIES, bins=2)
    assert table["images"].tolist() == [2, 2]
    assert table["high"].tolist() == [0.7, 1.0]
    assert table["confidence"].tolist() == pytest.approx([0.65, 0.9])
    assert table["accuracy"].tolist() == [0.5, 1.0]
    assert expected_calibration_error(LABELS, PROBABILITIES, bins=2) == pytest.approx((0.15 + 0.1) / 2)


def test_equal_width_by_hand():
    table = reliability(LABELS, PROBABILITIES, bins=4, spacing="width")  # an edge at 0.75
    assert table["images"].tolist() == [0, 0, 2, 2]
    assert table["confidence"].isna().tolist() == [True, True, False, False]
    assert expected_calibration_error(LABELS, PROBABILITIES, bins=4, spacing="width") == pytest.approx(0.125)
    three = expected_calibration_error(LABELS, PROBABILITIES, bins=3, spacing="width")  # 0.6 | 0.7, 0.8, 1.0
    assert three == pytest.approx((0.4 + 3 * abs(2 / 3 - 2.5 / 3)) / 4)


def test_equal_confidences_stay_together():
    probabilities = np.tile([0.8, 0.2], (10, 1))
    labels = np.array([0] * 8 + [1] * 2)
    assert reliability(labels, probabilities, bins=5)["images"].tolist() == [10]
    assert expected_calibration_error(labels, probabilities, bins=5) == pytest.approx(0)


def test_brier():
    assert brier(LABELS, PROBABILITIES) == pytest.approx(2 * (0.16 + 0.49 + 0.04) / 4)
    assert brier(LABELS, PROBABILITIES) == pytest.approx(2 * metrics.brier_score_loss(LABELS, PROBABILITIES[:, 1]))


def test_a_known_temperature_is_found():
    random = np.random.default_rng(0)
    logits = random.normal(size=(20_000, 4)) * 2
    honest = special.softmax(logits, axis=1)
    labels = (random.random((20_000, 1)) > honest.cumsum(axis=1)).sum(axis=1).clip(max=3)
    sure = special.softmax(logits * 2.5, axis=1)
    temperature = fit_temperature(labels, sure)
    assert temperature == pytest.approx(2.5, rel=0.06)
    cooled = with_temperature(sure, temperature)
    assert (cooled.argmax(1) == sure.argmax(1)).all()
    assert np.allclose(cooled.sum(axis=1), 1)
    assert expected_calibration_error(labels, cooled) < 0.02 < 0.1 < expected_calibration_error(labels, sure)
    assert np.allclose(with_temperature(honest, 1.0), honest, atol=1e-6)


def test_what_is_refused():
    with pytest.raises(ValueError, match="'size': expected one of mass, width"):
        reliability(LABELS, PROBABILITIES, spacing="size")
    with pytest.raises(ValueError, match="0 bins of 4 images"):
        reliability(LABELS, PROBABILITIES, bins=0)


def test_the_metric_for_intervals_is_the_error_of_equal_widths():
    """Sums over images, so that a draw is a product: the same number as from the bins."""
    rng = np.random.default_rng(0)
    probabilities, labels = rng.dirichlet([1, 1, 1], 200), rng.integers(0, 3, 200)
    found = of_images.calibration_error()(labels, probabilities)
    assert found == pytest.approx(expected_calibration_error(labels, probabilities, spacing="width"))
    assert of_images.calibration_error()(np.array([0, 1]), np.eye(3)[[0, 1]]) == 0
    assert of_images.recall_of(1)(np.array([1, 1, 0]), np.eye(3)[[1, 0, 1]]) == 0.5
