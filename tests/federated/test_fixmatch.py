"""FixMatch: a step by hand, and supervised training when lambda_u is 0."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fixmatch import FixMatch, PartlyLabelledData
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

SPEC = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
START = [np.eye(2, dtype=np.float32), np.zeros(2, np.float32)]
LABELLED = (np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), np.array([1, 1], np.int32))
WEAK = np.array([[3.0, 0.0], [0.0, 0.1]], np.float32)  # sure of class 0 (0.95), not sure (0.52)
STRONG = np.array([[0.5, 1.0], [1.0, 1.0]], np.float32)


def network() -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2, "softmax")])


def data() -> PartlyLabelledData:
    labelled = tf.data.Dataset.from_tensors(LABELLED).repeat(2)
    return PartlyLabelledData(labelled, tf.data.Dataset.from_tensors((WEAK, STRONG)).repeat(), np.int32(2))


def outcome(task, method, batches):
    round_ = build_round(task, method)
    with open_engine("in-process"):
        return play(round_, round_.start(START), [Client("a", lambda _: batches)], 1, 1)


def fixmatch(**settings):
    task = Task(network(), PartlyLabelledData.spec(SPEC), cross_entropy)
    return outcome(task, FixMatch(learning_rate=0.5, **settings), data())


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def test_a_step_by_hand():
    kernel, bias = (weight.astype(np.float64) for weight in START)
    for _ in range(2):
        sure = softmax(WEAK @ kernel + bias).max(axis=1) >= 0.8
        assert sure.tolist() == [True, False]
        labels = softmax(WEAK @ kernel + bias).argmax(axis=1)
        supervised = (softmax(LABELLED[0] @ kernel + bias) - np.eye(2)[LABELLED[1]]) / 2
        # The mean is over both unlabelled images, the one below tau counting as zero.
        unsupervised = 0.7 * sure[:, None] * (softmax(STRONG @ kernel + bias) - np.eye(2)[labels]) / 2
        step = LABELLED[0].T @ supervised + STRONG.T @ unsupervised
        kernel, bias = kernel - 0.5 * step, bias - 0.5 * (supervised.sum(axis=0) + unsupervised.sum(axis=0))
    found = fixmatch(lambda_u=0.7, tau=0.8)
    assert largest_difference(found.state.weights, [kernel, bias]) < 1e-6
    assert found.reports["a"]["confident"] == 2 and found.reports["a"]["unlabelled"] == 4


def test_nothing_unlabelled_is_supervised_training():
    supervised = outcome(Task.of_batches(network(), SPEC, cross_entropy), FedAvg(learning_rate=0.5), data().labelled)
    without = fixmatch(lambda_u=0.0)
    assert largest_difference(without.state.weights, supervised.state.weights) < 1e-7
    assert largest_difference(fixmatch().state.weights, supervised.state.weights) > 1e-3


def test_nobody_is_sure_enough():
    assert fixmatch(tau=0.999).reports["a"]["confident"] == 0
    assert fixmatch(tau=0.999).loss == pytest.approx(fixmatch(lambda_u=0.0).loss, abs=1e-6)
