"""Clients that cannot take part are left out and named."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import arrays, dataset, largest_difference
from tffapps.engine import open_engine
from tffapps.errors import RunStopped
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round


@pytest.fixture(scope="module")
def round_(tiny_task):
    return build_round(tiny_task, FedAvg(learning_rate=0.1))


def good(number: int) -> Client:
    return Client(f"good-{number}", lambda _: dataset(number))


def poisoned() -> Client:
    images, labels = arrays(5)
    images[0, 0, 0, 0] = np.nan
    return Client("poisoned", lambda _: tf.data.Dataset.from_tensor_slices((images, labels)).batch(8))


def empty() -> Client:
    return Client("empty", lambda _: dataset(0).take(0))


def failing() -> Client:
    def broken(images, labels):
        with tf.control_dependencies([tf.debugging.assert_less(tf.reduce_max(images), 0.0, message="bad disk")]):
            return tf.identity(images), labels

    return Client("failing", lambda _: dataset(3).map(broken))


@pytest.mark.parametrize("engine", ["in-process", "worker"])
@pytest.mark.parametrize(
    ("bad", "why"), [(poisoned, "not finite"), (empty, "no usable examples"), (failing, "failed: ")]
)
def test_a_bad_client_is_left_out_and_named(bad, why, engine, round_, tiny_weights):
    with open_engine(engine):
        state = round_.start(tiny_weights)
        alone = play(round_, state, [good(0), good(1)], 1, min_clients=1)
        beside = play(round_, state, [good(0), bad(), good(1)], 1, min_clients=2)
    assert list(beside.left_out) == [bad().name]
    assert why in beside.left_out[bad().name]
    assert (beside.took_part, beside.examples) == (2, 48)
    assert largest_difference(beside.state.weights, alone.state.weights) == 0
    assert beside.loss == alone.loss


@pytest.mark.parametrize("name", ["robust", "compressed", "secure", "dp"])
def test_a_bad_client_leaves_no_trace_in_an_aggregators_state(name, tiny_task, tiny_weights):
    aggregation = Aggregation(name, dp_noise=0.0)
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1), aggregation, 2)
    with open_engine("in-process"):
        alone = beside = round_.start(tiny_weights)
        for number in (1, 2):
            alone = play(round_, alone, [good(0), good(1)], number, 1).state
            beside = play(round_, beside, [good(0), poisoned(), good(1)], number, 1).state
    assert largest_difference(alone.weights, beside.weights) < 1e-7


def test_too_few_clients_are_tried_twice_then_the_run_stops(round_, tiny_weights):
    tries = []
    counted = Client("empty", lambda number: tries.append(number) or dataset(0).take(0))
    with open_engine("in-process"):
        state = round_.start(tiny_weights)
        with pytest.raises(RunStopped, match=r"round 4: only 1 of 2 .* 2 needed \(--min-clients\); empty: no usable"):
            play(round_, state, [good(0), counted], 4, min_clients=2)
    assert tries == [4, 4]


def test_a_client_that_recovers_is_taken_back(round_, tiny_weights):
    tries = []
    late = Client("late", lambda number: tries.append(number) or dataset(1).take(0 if len(tries) == 1 else -1))
    with open_engine("in-process"):
        outcome = play(round_, round_.start(tiny_weights), [good(0), late], 1, min_clients=2)
    assert outcome.took_part == 2 and outcome.left_out == {}


def test_no_client_at_all(round_, tiny_weights):
    with open_engine("in-process"), pytest.raises(RunStopped, match="only 0 of 1"):
        play(round_, round_.start(tiny_weights), [failing()], 1, min_clients=1)
