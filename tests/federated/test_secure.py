"""Secure sums are right, whatever the number of examples, or refused: never another number."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.federated.quadratics import Parabola, task
from tffapps.engine import open_engine
from tffapps.errors import RunStopped, UserError
from tffapps.federated.aggregation import SECURE_BOUND, Aggregation
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.secure import BITS, OUT_OF_RANGE, UNIT

SECURE = Aggregation("secure")


@pytest.fixture(scope="module")
def process():
    kind = tff.to_type([tff.TensorType(np.float32, [2]), tff.TensorType(np.float32, [])])
    return SECURE.factory(2).create(kind, tff.TensorType(np.float32))


def mean(process, values, examples):
    """Of three numbers a client, and how many of all did not fit."""
    with open_engine("in-process"):
        clients = [[np.array(three[:2], np.float32), np.float32(three[2])] for three in values]
        output = process.next(process.initialize(), clients, [np.float32(count) for count in examples])
    return [*np.asarray(output.result[0]), float(output.result[1])], output.measurements[OUT_OF_RANGE]


@pytest.mark.parametrize(
    ("values", "examples"),
    [
        ([[20, -20, 1e-3], [5, 7, 1e-5]], [300_000, 100_000]),
        ([[0.01, 100, -3e-6], [0.02, -1, 1e-6]], [2_000_000, 1_000_000]),
        ([[1e-6, 1, 3e6], [-2e-6, 2, 1e6]], [3, 5]),
        ([[1, 2, 3], [9, 9, 9]], [4, 0]),
    ],
    ids=["many examples", "millions of examples", "large values", "a client that was left out"],
)
def test_it_is_the_weighted_mean(process, values, examples):
    found, out = mean(process, values, examples)
    assert found == pytest.approx(np.average(values, axis=0, weights=examples), rel=1e-5, abs=2 * UNIT) and out == 0


def test_nobody_is_a_mean_of_zero(process):
    assert mean(process, [[0, 0, 0]], [0]) == ([0, 0, 0], 0)


def test_what_does_not_fit_is_counted(process):
    assert mean(process, [[1e7, -1e7, 1], [1, 1, 1e9]], [100, 1])[1] == 3
    assert SECURE_BOUND / UNIT == 2 ** (BITS - 1)


def test_a_round_with_values_that_do_not_fit_is_refused():
    """Not given another number; the state is that of the round before."""
    round_ = build_round(task(), FedAvg(learning_rate=0.1), SECURE, clients=2)
    start = round_.start([np.array([[2.0]], np.float32)])
    far = [Parabola(1.0, lowest, 1, 8).batches() for lowest in (0.0, 1e9)]
    with open_engine("in-process"):
        near = play(round_, start, [Client("a", lambda _: far[0])], 1, 1)
        assert near.state.weights[0] == pytest.approx(1.8, abs=1e-5)
        with pytest.raises(RunStopped, match=r"--aggregator secure: 1 values .* lower --learning-rate"):
            play(round_, start, [Client("a", lambda _: far[0]), Client("b", lambda _: far[1])], 1, 1)


def test_more_clients_than_its_numbers_have_room_for_are_refused():
    with pytest.raises(UserError, match="--aggregator secure: its sums have room for 4096 clients"):
        build_round(task(), FedAvg(), SECURE, clients=5000)
