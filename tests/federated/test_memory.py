"""Memory at the server and what clients send for it: a method that does nothing else, by hand."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tree

from tests.federated.line import SPEC, START, task
from tffapps.engine import open_engine
from tffapps.federated import tested
from tffapps.federated.aggregation import AGAINST_BAD, NAMES, Aggregation
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.tested import DataAndTest


@dataclasses.dataclass(frozen=True)
class Remembering(FedAvg):
    """A client sends (its position, the sum it was told); the server adds up the means it gets."""

    def first_memory(self, task, weights, seed):
        return [np.array([0.0, 1.0], np.float32), np.int32([seed]), weights[0]]

    def sent_specs(self, task):
        return [tf.TensorSpec([2], tf.float32)]

    def work(self, task, data, site):
        total, _, _ = site.memory
        done = self.train(task, data)
        sent = tf.stack([tf.cast(site.position, tf.float32), tf.reduce_sum(total)])
        return done._replace(sent=(tf.where(done.loss < 1e6, sent, np.nan),))

    def next_memory(self, task, memory, sent, before, after):
        total, rounds, _ = memory
        return [total + sent[0], rounds + 1, after[0] - before[0]]


def batches(count, target=2.0):
    """`count` times the same example."""
    pair = (np.full((count, 1), 0.75, np.float32), np.full(count, target, np.float32))
    return tf.data.Dataset.from_tensors(pair)


def played(data, engine="in-process", method=None, aggregation=None, rounds=2, seed=5):
    round_ = build_round(task(), method or Remembering(learning_rate=0.1), aggregation, len(data))
    with open_engine(engine):
        state = round_.start(START, seed)
        for number in range(1, rounds + 1):
            clients = [Client(f"{place}", lambda _, one=one: one) for place, one in enumerate(data)]
            outcome = play(round_, state, clients, number, 1)
            state = outcome.state
    return state, outcome


@pytest.mark.parametrize("engine", ["in-process", "worker"])
def test_two_rounds_by_hand(engine):
    state, _ = played([batches(3), batches(1)], engine)
    # Round 1: (0, 1) is told, a quarter of the examples are at position 1. Round 2: (0.25, 2) is told.
    total, rounds, moved = state.memory
    assert total.tolist() == [0.5, 1 + 1 + 2.25] and rounds.tolist() == [7] and rounds.dtype == np.int32
    # k moves by 0.1 · 0.75 · distance; the distance falls from 2 to 2 − 0.1 · 2 · (0.75² + 1) in the first round.
    assert moved == pytest.approx(np.array([[-0.075 * (2 - 0.2 * 1.5625)]]), abs=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in AGAINST_BAD])
def test_all_aggregators(name):
    data = [batches(3), batches(1)]
    state, _ = played(data, aggregation=Aggregation(name, dp_noise=0.0, dp_clip=1e3), rounds=1)
    mean = 0.5 if name == "dp" else 0.25  # under dp every client counts the same
    assert state.memory[0] == pytest.approx([mean, 2], abs=1e-4)


def test_dp_covers_what_is_sent():
    """It is clipped with the update: the norm of all of it is the bound."""
    state, _ = played([batches(3)], aggregation=Aggregation("dp", dp_noise=0.0, dp_clip=1e-3), rounds=1)
    sent = state.memory[0] - [0, 1]
    moved = [now - then for now, then in zip(state.weights, START)]
    norm = np.sqrt(sum(np.sum(np.square(part)) for part in (sent, *moved)))
    assert np.abs(sent).max() > 0 and norm == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("name", ["mean", "robust", "secure", "compressed"])
def test_a_client_whose_update_is_not_finite_sends_nothing(name):
    data = [batches(3), batches(5, np.nan)]
    state, outcome = played(data, aggregation=Aggregation(name), rounds=1)
    assert list(outcome.left_out) == ["1"] and state.memory[0] == pytest.approx([0, 2], abs=1e-4)


def test_a_client_that_sends_what_is_not_finite_is_left_out():
    far = batches(1, 1e4)  # its update is finite, but Remembering sends no number at such a loss
    state, outcome = played([batches(3), far], rounds=1)
    assert list(outcome.left_out) == ["1"] and state.memory[0].tolist() == [0, 2]


def test_the_servers_own_model_does_not_dilute_it():
    method = Remembering(learning_rate=0.1, server_examples=4.0)
    state, _ = played([batches(3), batches(1)], method=method, rounds=1)
    assert state.memory[0].tolist() == [0.25, 2]
    assert state.memory[2] == pytest.approx(np.array([[-0.075 * 2 / 2]]), abs=1e-6)  # the weights do move half as far


def test_beside_a_mean_over_rounds():
    method = Remembering(learning_rate=0.1, average_from=1)
    state, _ = played([batches(3), batches(1)], method=method)
    assert state.memory[0].tolist() == [0.5, 4.25] and state.number == 2
    assert largest_leaf(state.mean) > largest_leaf(state.weights)  # k falls, and the mean is behind


def largest_leaf(values) -> float:
    return max(float(np.max(value)) for value in values)


def test_clients_that_also_test():
    class Both(tested.Tested, Remembering):
        pass

    spec = dataclasses.replace(task(), client_spec=DataAndTest.spec(tf.data.DatasetSpec(SPEC), SPEC))
    test = (np.zeros((1, 1), np.float32), np.zeros(1, np.float32))
    data = [DataAndTest(batches(count), tf.data.Dataset.from_tensors(test).take(0)) for count in (3, 1)]
    round_ = build_round(spec, Both(learning_rate=0.1))
    with open_engine("in-process"):
        state = round_.next(round_.start(START, 5), [0, 1], data).state
    assert state.memory[0].tolist() == [0.25, 2]


def test_bytes():
    round_ = build_round(task(), Remembering())
    assert round_.bytes_down(2) == 2 * (8 + (8 + 4 + 4))
    assert round_.bytes_up(2) == 2 * (8 + 8 + 16)


@pytest.mark.parametrize("average_from", [0, 1])
def test_without_memory_a_checkpoint_is_what_it_was(average_from):
    """Runs of earlier versions go on: the leaves are those of a state that has no such field."""
    round_ = build_round(task(), FedAvg(average_from=average_from))
    with open_engine("in-process"):
        state = round_.next(round_.start(START), [0], [batches(1)]).state
    assert state.memory == []
    fields = ("weights", "optimizer", "aggregator", *(("number", "mean") if average_from else ()))
    assert len(tree.flatten(state)) == len(tree.flatten([getattr(state, field) for field in fields]))
    assert [np.shape(leaf) for leaf in tree.flatten(state)][:2] == [(1, 1), (1,)]
