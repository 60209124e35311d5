"""When an answer counts: numbers worked out by hand."""

import numpy as np
import pytest

from tffapps.use.decision import LEAST, NEVER, Decision


def of(confidences, hits):
    """Two classes: the first is said with these confidences, and right where hit."""
    probabilities = np.stack([np.array(confidences), 1 - np.array(confidences)], axis=1)
    return np.where(hits, 0, 1), probabilities


def test_the_threshold_is_the_lowest_with_nine_in_ten_right(monkeypatch):
    monkeypatch.setattr("tffapps.evaluation.calibration.fit_temperature", lambda *_: 1.0)
    # Falling: 10 hits, a miss (10 of 11), a hit (11 of 12), a miss (11 of 13: below nine in ten), two hits (13 of 15).
    confidences = np.linspace(0.95, 0.60, 15)
    hits = [True] * 10 + [False, True, False, True, True]
    fitted = Decision.fit(*of(confidences, hits))
    assert fitted.unsure_below == pytest.approx(confidences[11], abs=2e-6) and fitted.images == 15
    _, probabilities = of(confidences, hits)
    assert fitted.sure(fitted.calibrated(probabilities)).sum() == 12


def test_equal_confidences_stand_or_fall_together(monkeypatch):
    monkeypatch.setattr("tffapps.evaluation.calibration.fit_temperature", lambda *_: 1.0)
    fitted = Decision.fit(*of([0.8] * 20, [True] * 15 + [False] * 5))
    assert fitted.unsure_below == NEVER and "always unsure" in fitted.told
    assert not fitted.sure(np.array([[1.0, 0.0]])).any()


def test_too_few_images_fit_nothing():
    labels, probabilities = of([0.9] * (LEAST - 1), [True] * (LEAST - 1))
    fitted = Decision.fit(labels, probabilities)
    assert fitted == Decision() and fitted.sure(probabilities).all()
    assert fitted.calibrated(probabilities) is probabilities and "not calibrated" in fitted.told


def test_a_model_that_is_right_is_not_made_surer():
    labels, probabilities = of([0.7] * 50, [True] * 50)
    fitted = Decision.fit(labels, probabilities)
    assert fitted.temperature == 1 and fitted.images == 50
    np.testing.assert_allclose(fitted.calibrated(probabilities), probabilities)


def test_an_over_confident_model_is_cooled_down():
    rng = np.random.default_rng(0)
    labels, probabilities = of([0.99] * 200, rng.random(200) < 0.7)
    fitted = Decision.fit(labels, probabilities)
    assert fitted.temperature > 1
    np.testing.assert_allclose(fitted.calibrated(probabilities)[0, 0], (labels == 0).mean(), atol=0.01)
