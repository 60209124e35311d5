"""Clients that also test: the same weights, and counts of their own model; the server's model in the average."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import dataset, largest_difference
from tffapps.engine import open_engine
from tffapps.federated import tested as methods
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy
from tffapps.settings import key_values

SPEC = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
START = [np.eye(2, dtype=np.float32), np.zeros(2, np.float32)]
RATE = 4.0
# The first client's labels are those the identity gives, the second's the opposite: only its own model turns round.
TRAINING = {
    "right": (np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 2.0]], np.float32), np.array([0, 1, 1], np.int32)),
    "wrong": (np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), np.array([1, 0], np.int32)),
}
TEST = (
    np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0], [0.0, 2.0]], np.float32),
    np.array([0, 0, 1, 1, 1], np.int32),
)


def network() -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2, "softmax")])


def outcome(task, method, data, start=START):
    round_ = build_round(task, method)
    clients = [Client(name, lambda _, batches=batches: batches) for name, batches in data.items()]
    with open_engine("in-process"):
        return play(round_, round_.start(start), clients, 1, 1)


def batches(arrays, size=5):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(size)


def one_step(images, labels):
    """The weights after a step of a client from START."""
    scores = np.exp(images) / np.exp(images).sum(axis=1, keepdims=True)
    error = (scores - np.eye(2)[labels]) / len(labels)
    return [START[0] - RATE * images.T @ error, START[1] - RATE * error.sum(axis=0)]


def counts(weights):
    """The confusion matrix of TEST under these weights."""
    found = np.zeros((2, 2), int)
    np.add.at(found, (TEST[1], (TEST[0] @ weights[0] + weights[1]).argmax(axis=1)), 1)
    return found


@pytest.fixture(scope="module")
def plain():
    task = Task.of_batches(network(), SPEC, cross_entropy)
    return outcome(task, FedAvg(learning_rate=RATE), {name: batches(arrays) for name, arrays in TRAINING.items()})


@pytest.fixture(scope="module")
def tested():
    task = Task(network(), methods.DataAndTest.spec(tf.data.DatasetSpec(SPEC), SPEC), cross_entropy)
    data = {name: methods.DataAndTest(batches(arrays), batches(TEST, 2)) for name, arrays in TRAINING.items()}
    return outcome(task, methods.TestedFedAvg(learning_rate=RATE), data)


def test_the_weights_are_those_of_the_plain_method(plain, tested):
    assert largest_difference(tested.state.weights, plain.state.weights) == 0
    assert (tested.examples, tested.loss) == (plain.examples, plain.loss)


def test_each_client_counts_with_the_model_it_trained(tested):
    assert counts(tested.state.weights).tolist() == [[1, 1], [0, 3]]  # of the average; no client's own
    for name, expected in (("right", [[1, 1], [1, 2]]), ("wrong", [[1, 1], [2, 1]])):
        assert counts(one_step(*TRAINING[name])).tolist() == expected
        report = tested.reports[name]
        assert [[report[f"test_{i}_{j}"] for j in range(2)] for i in range(2)] == expected


def test_a_client_without_test_images_counts_nothing():
    task = Task(network(), methods.DataAndTest.spec(tf.data.DatasetSpec(SPEC), SPEC), cross_entropy)
    data = {"a": methods.DataAndTest(batches(TRAINING["right"]), batches(TEST).take(0))}
    report = outcome(task, methods.TestedFedAvg(learning_rate=RATE), data).reports["a"]
    assert sum(report[f"test_{i}_{j}"] for i in range(2) for j in range(2)) == 0 and report["examples"] == 3


def test_the_servers_own_model_in_the_average_by_hand(plain):
    one, two = (one_step(*TRAINING[name]) for name in ("right", "wrong"))
    mean = [(3 * a + 2 * b) / 5 for a, b in zip(one, two)]
    assert largest_difference(plain.state.weights, mean) < 1e-6
    method = FedAvg(learning_rate=RATE, server_examples=15.0)
    task = Task.of_batches(network(), SPEC, cross_entropy)
    found = outcome(task, method, {name: batches(arrays) for name, arrays in TRAINING.items()})
    by_hand = [(5 * new + 15 * old) / 20 for new, old in zip(mean, START)]
    assert largest_difference(found.state.weights, by_hand) < 1e-6
    assert largest_difference(found.state.weights, mean) > 0.1
    assert found.examples == 5  # the server's are no one's examples


def test_statistics_are_averaged_with_the_servers_too(tiny_task, tiny_weights):
    data = {"one": dataset(1), "two": dataset(2, 16)}
    method = FedAvg(learning_rate=0.1)
    means = outcome(tiny_task, method, data, tiny_weights).state.weights
    damped = outcome(tiny_task, dataclasses.replace(method, server_examples=120.0), data, tiny_weights)
    expected = [(40 * new + 120 * old) / 160 for new, old in zip(means, tiny_weights)]
    moved = [variable.name for variable, a, b in zip(tiny_task.model.weights, means, tiny_weights) if (a != b).any()]
    assert any("moving_variance" in name for name in moved) and any("kernel" in name for name in moved)
    assert largest_difference(damped.state.weights, expected) < 1e-5


def test_what_a_tested_method_does_not_change_is_the_methods_own():
    method = methods.TestedFedAvg(learning_rate=0.25, server_examples=7.0)
    assert method == methods.TestedFedAvg(learning_rate=0.25, server_examples=7.0) != methods.TestedFedAvg()
    assert method != FedAvg(learning_rate=0.25, server_examples=7.0)  # another round
    assert len({method, methods.TestedFedAvg(learning_rate=0.25, server_examples=7.0), methods.TestedFedAvg()}) == 2
    assert key_values(method) == key_values(FedAvg(learning_rate=0.25, server_examples=7.0))
    assert methods.TestedFixMatch(tau=0.3).name == "fssfl" and key_values(methods.TestedFixMatch(tau=0.3))["tau"] == 0.3
