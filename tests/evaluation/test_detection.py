"""Sensitivity at a specificity and ordered classes, by hand; the positive class is what the caller says."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.architecture import ROOT
from tffapps.evaluation.detection import at_threshold, sensitivity_at, sensitivity_interval, threshold_at
from tffapps.evaluation.ordinal import quadratic_weighted_kappa

LABELS = np.array([1, 1, 1, 0, 0, 0, 0])
SCORES = np.array([0.9, 0.6, 0.3, 0.7, 0.4, 0.2, 0.1])  # of class 1
PROBABILITIES = np.stack([1 - SCORES, SCORES], axis=1)


def test_by_hand():
    # class 1: above 0.7 is one of three hits and no false alarm; above 0.4 two, and one of four
    for specificity, expected in ((1.0, 1 / 3), (0.9, 1 / 3), (0.75, 2 / 3), (0.5, 1.0)):
        assert sensitivity_at(LABELS, PROBABILITIES, positive=1, specificity=specificity) == pytest.approx(expected)
    # class 0, of 0.9 0.8 0.6 0.3 and 0.7 0.4 0.1: two of four before the first false alarm
    assert sensitivity_at(LABELS, PROBABILITIES, positive=0, specificity=0.9) == pytest.approx(2 / 4)


def test_a_threshold_is_taken_to_other_images():
    threshold = threshold_at(LABELS, PROBABILITIES, positive=1, specificity=0.75)
    assert threshold == 0.6
    assert at_threshold(LABELS, PROBABILITIES, positive=1, threshold=threshold) == pytest.approx((2 / 3, 3 / 4))
    assert at_threshold(LABELS[3:], PROBABILITIES[3:], positive=1, threshold=0.15)[1] == pytest.approx(1 / 4)
    assert np.isnan(at_threshold(LABELS[3:], PROBABILITIES[3:], positive=1, threshold=0.15)[0])


def test_interval():
    random = np.random.default_rng(0)
    labels = random.integers(2, size=120)
    score = 1 / (1 + np.exp(-random.normal(size=120) - 2 * labels))
    probabilities = np.stack([1 - score, score], axis=1)
    found = sensitivity_interval(labels, probabilities, np.arange(120) // 2, positive=1, specificity=0.8, draws=200)
    assert found.estimate == sensitivity_at(labels, probabilities, positive=1, specificity=0.8)
    assert 0.3 < found.low < found.estimate < found.high <= 1


def test_one_class_alone_or_an_unknown_one():
    assert np.isnan(sensitivity_at(LABELS[:3], PROBABILITIES[:3], positive=1, specificity=0.9))
    with pytest.raises(ValueError, match="a specificity needs others"):
        threshold_at(LABELS[:3], PROBABILITIES[:3], positive=1, specificity=0.9)
    with pytest.raises(ValueError, match="positive class 2: expected 0 to 1"):
        sensitivity_at(LABELS, PROBABILITIES, positive=2, specificity=0.9)


def test_quadratic_weighted_kappa_by_hand():
    labels, predicted = np.array([0, 1, 2, 2]), np.array([0, 1, 2, 0])
    # observed squares 4; expected (1, 1, 2) x (2, 1, 1) / 4: 1·1 + 1·4 + 1·2 + 1·1 + 2·2·4 + 2·1·1 = 26, / 4
    assert quadratic_weighted_kappa(labels, np.eye(3)[predicted]) == pytest.approx(1 - 4 / 6.5)
    assert quadratic_weighted_kappa(labels, np.eye(3)[labels]) == 1
    assert np.isnan(quadratic_weighted_kappa(np.zeros(3, int), np.eye(3)[[0, 0, 0]]))


def test_nothing_here_imports_tensorflow():
    names = ["calibration", "clients", "detection", "intervals", "ordinal", "paired", "ranking", "subjects"]
    code = f"import sys; from tffapps.evaluation import {', '.join(names)}; print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
