"""Pseudo-labels: below the threshold nothing trains, true labels never train, a server step anchors the model."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client, play
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

SPEC = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
# With the identity for weights the scores are the inputs: rows 0 and 2 are sure (0.88 and 0.95), row 1 is not (0.62).
IMAGES = np.array([[2.0, 0.0], [0.0, 0.5], [0.0, 3.0]], np.float32)
START = [np.eye(2, dtype=np.float32), np.zeros(2, np.float32)]


def network() -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2, "softmax")])


def data(truth, images=IMAGES) -> UnlabelledData:
    rows = np.arange(len(images), dtype=np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((images, rows)).batch(2)
    draw = np.linspace(0, 0.9, len(images), dtype=np.float32)
    prior = np.array([0.5, 0.5], np.float32)
    return UnlabelledData(dataset, dataset, dataset, np.asarray(truth, np.int32), np.int32(1), draw, prior)


def outcome(method, clients, server=None):
    task = Task(network(), UnlabelledData.spec(SPEC), cross_entropy)
    if server is not None:
        task = dataclasses.replace(task, server_spec=tf.data.DatasetSpec(SPEC))
    round_ = build_round(task, method)
    with open_engine("in-process"):
        return play(round_, round_.start(START), clients, 1, 1, server)


def method(**settings) -> PseudoLabel:
    return PseudoLabel(learning_rate=0.5, **{"train_share": 1.0, **settings})


def test_one_step_by_hand_with_the_kept_rows_only():
    found = outcome(method(threshold=0.7), [Client("a", lambda _: data([0, 0, 0]))])
    kept, labels = IMAGES[[0, 2]], np.array([0, 1])
    scores = np.exp(kept) / np.exp(kept).sum(axis=1, keepdims=True)
    error = (scores - np.eye(2)[labels]) / 2
    by_hand = [START[0] - 0.5 * kept.T @ error, START[1] - 0.5 * error.sum(axis=0)]
    assert largest_difference(found.state.weights, by_hand) < 1e-6
    assert found.examples == 2
    report = found.reports["a"]
    assert [report[name] for name in ("kept_0", "kept_1", "right_0", "right_1")] == [1, 1, 1, 0]


def test_true_labels_change_the_report_and_nothing_else():
    first = outcome(method(), [Client("a", lambda _: data([0, 1, 1]))])
    second = outcome(method(), [Client("a", lambda _: data([1, 0, 0]))])
    assert largest_difference(first.state.weights, second.state.weights) == 0
    assert (first.reports["a"]["right_1"], second.reports["a"]["right_1"]) == (1, 0)


def test_a_client_that_is_sure_of_nothing_is_left_out():
    unsure = data([0, 1], np.array([[0.1, 0.0], [0.0, 0.2]], np.float32))
    found = outcome(method(), [Client("sure", lambda _: data([0, 1, 1])), Client("unsure", lambda _: unsure)])
    assert found.left_out == {"unsure": "no usable examples"}


def test_the_server_step_trains_on_the_servers_data():
    @dataclasses.dataclass(frozen=True)
    class Anchored(PseudoLabel):
        def server_work(self, task, data):
            from tffapps.federated import local

            local.train(task.model, data, task.loss, self.client_optimizer(), self.gradients)

    gold = tf.data.Dataset.from_tensors((IMAGES, np.array([1, 0, 0], np.int32)))  # the opposite of the predictions
    clients = [Client("a", lambda _: data([0, 1, 1]))]
    plain = outcome(method(), clients)
    anchored = outcome(Anchored(learning_rate=0.5, train_share=1.0), clients, lambda number: gold)
    assert anchored.state.weights[0][0, 0] < plain.state.weights[0][0, 0] - 1e-3
    with pytest.raises(NotImplementedError, match="no server step"):
        outcome(method(), clients, lambda number: gold)
