"""Thresholds and alignment on numbers worked out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tffapps.federated import thresholds
from tffapps.federated.few_labels import FewLabels
from tffapps.federated.freematch import FreeMatch

from . import few_labelled


def test_alignment_by_hand():
    """(0.8, 0.2) · (0.5, 0.5) / (0.9, 0.1) = (0.444, 1): normalised 4/13 and 9/13."""
    found = thresholds.aligned(tf.constant([[0.8, 0.2]]), tf.constant([0.5, 0.5]), tf.constant([0.9, 0.1]))
    assert found.numpy()[0] == pytest.approx([4 / 13, 9 / 13], abs=1e-6)
    found = thresholds.aligned(tf.constant([[0.8, 0.2]]), tf.constant([0.5, 0.5]), tf.constant([0.9, 0.1]), 0.0)
    assert found.numpy()[0] == pytest.approx([0.8, 0.2], abs=1e-6)


def test_flexmatchs_thresholds_by_hand():
    """Four images were told 0, two 1, one 2, and three nobody was sure of: beta = 1, 1/2, 1/4; M = 1, 1/3, 1/7."""
    told = tf.constant([0, 0, 0, 0, 1, 1, 2, -1, -1, -1])
    assert thresholds.flexible(told, 3, 0.9).numpy() == pytest.approx([0.9, 0.3, 0.9 / 7], abs=1e-6)
    # Of eight nobody was sure of, one was told 0: beta = 1/8, M = 1/15. Later all thresholds rise.
    told = tf.constant([0, *[-1] * 8])
    assert thresholds.flexible(told, 3, 0.9).numpy() == pytest.approx([0.9 / 15, 0, 0], abs=1e-6)


def test_freematchs_averages_and_thresholds_by_hand():
    method = FreeMatch(free_decay=0.75)
    first = tf.constant([[0.6, 0.4], [0.8, 0.2]])
    known = method.first_status(first)
    assert known[0].numpy() == pytest.approx(0.7) and known[1].numpy() == pytest.approx([0.7, 0.3])
    assert known[2].numpy() == pytest.approx([1, 0])
    known = method.next_status(known, tf.constant([[0.1, 0.9]]), tf.constant([0]))
    # 0.75 · 0.7 + 0.25 · 0.9 = 0.75; (0.75 · 0.7 + 0.025, 0.75 · 0.3 + 0.225) = (0.55, 0.45); (0.75, 0.25)
    assert known[0].numpy() == pytest.approx(0.75) and known[1].numpy() == pytest.approx([0.55, 0.45])
    assert known[2].numpy() == pytest.approx([0.75, 0.25])
    # The second class's threshold is 0.75 · 45/55 = 0.614.
    labels, mask = method.chosen(known, tf.constant([[0.74, 0.26], [0.38, 0.62], [0.39, 0.61], [0.76, 0.24]]))
    assert labels.numpy().tolist() == [0, 1, 1, 0] and mask.numpy().tolist() == [0, 1, 0, 1]


def test_fairness_by_hand():
    """Target (0.6/0.75, 0.4/0.25) normalised; of the two strong views that count, (1.1/1, 0.9/1) normalised."""
    outputs = tf.constant([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
    found = thresholds.fairness(
        tf.constant([0.6, 0.4]), tf.constant([0.75, 0.25]), outputs, tf.constant([1.0, 1.0, 0.0])
    )
    by_hand = 1 / 3 * math.log(0.55) + 2 / 3 * math.log(0.45)
    assert found.numpy() == pytest.approx(by_hand, abs=1e-6)
    none = thresholds.fairness(tf.constant([0.6, 0.4]), tf.constant([0.75, 0.25]), outputs, tf.zeros([3]))
    assert none.numpy() == 0


def test_an_unreadable_images_row_of_zeros_counts_for_nothing():
    predicted = tf.constant([[0.6, 0.4], [0.0, 0.0]])
    assert thresholds.confidence_of(predicted).numpy() == pytest.approx(0.6)
    assert thresholds.mean_of(predicted).numpy() == pytest.approx([0.6, 0.4])
    assert thresholds.sure(predicted, tf.constant([0.0, 0.0]))[1].numpy().tolist() == [True, False]


@pytest.mark.parametrize(
    ("settings", "number", "weights"),
    [
        ({}, 1, [1, 1, 1, 1]),
        ({}, 0, [0, 0, 0, 0]),
        ({"warmup_rounds": 1.0}, 1, [0, 0, 0, 0]),
        ({"warmup_rounds": 0.5}, 1, [0, 0, 1, 1]),
        ({"warmup_rounds": 1.0, "ramp_rounds": 2.0}, 2, [0, 0.125, 0.25, 0.375]),
        ({"ramp_rounds": 0.5}, 2, [1, 1, 1, 1]),
    ],
)
def test_when_unlabelled_images_begin_to_count(settings, number, weights):
    method, data = FewLabels(**settings), few_labelled.data(steps=4, number=number)
    found = [float(method.unlabelled_weight(data, np.float32(step))) for step in range(4)]
    assert found == pytest.approx(weights) and bool(method.looks_on(data)) == (not any(weights))
