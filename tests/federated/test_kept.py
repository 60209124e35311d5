"""What clients keep between rounds, and what the server gathers from each: a method that does nothing else, by hand."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import largest_difference
from tests.federated.line import SPEC, START, task
from tests.federated.test_memory import batches
from tffapps.engine import open_engine
from tffapps.engine.values import Deferred
from tffapps.errors import UserError
from tffapps.federated import tested
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import Task
from tffapps.federated.tested import DataAndTest
from tffapps.runs import Run
from tffapps.training import MEASURED_COLUMNS, train


@dataclasses.dataclass(frozen=True)
class Keeping(FedAvg):
    """A client counts its rounds and keeps the model it was given; it pulls the bias by the count.

    It sends the count, to be averaged, and the count with its position, to be gathered.
    """

    def first_kept(self, task, weights, seed):
        return [np.array([seed], np.int32), np.zeros_like(weights[0])]

    def first_memory(self, task, weights, seed):
        return [np.zeros(2, np.float32), np.zeros((task.clients, 2), np.float32)]

    def sent_specs(self, task):
        return [tf.TensorSpec([], tf.float32)]

    def gathered_specs(self, task):
        return [tf.TensorSpec([2], tf.float32)]

    def work(self, task, data, site):
        count, _ = site.kept
        given = task.model.weights[0].read_value()
        done = self.train(task, data)
        number = tf.cast(count[0], tf.float32)
        task.model.weights[1].assign_add([number])
        pair = tf.stack([tf.cast(site.position, tf.float32), number])
        return done._replace(kept=(count + 1, given), sent=(number,), gathered=(pair,))

    def next_memory(self, task, memory, sent, before, after):
        mean, rows = sent
        missing = task.clients - tf.shape(rows)[0]
        count = tf.cast(tf.shape(rows)[0], tf.float32)
        return [tf.stack([mean, count]), tf.pad(rows, [[0, missing], [0, 0]])]


METHOD = Keeping(learning_rate=0.1)


def clients_of(*data):
    return [Client(f"{place}", lambda _, one=one: one) for place, one in enumerate(data)]


class Room:
    """Keeps in memory what a run keeps in its folder."""

    def __init__(self, round_, count, seed=0):
        self.values = {position: round_.first_kept(START, seed) for position in range(count)}

    def __call__(self, position):
        return self.values[position]


@functools.cache
def for_two(aggregator="mean"):
    return build_round(task(), METHOD, Aggregation(aggregator), clients=2)


def played(clients, rounds=2, engine="in-process", aggregator="mean", seed=0):
    round_ = for_two(aggregator)
    room = Room(round_, len(clients), seed)
    with open_engine(engine):
        state = round_.start(START, seed)
        for number in range(1, rounds + 1):
            outcome = play(round_, state, clients, number, 1, kept=room)
            state = outcome.state
            room.values.update({place: one() for place, one in outcome.kept.items()})
    return state, outcome, room


@pytest.mark.parametrize("engine", ["in-process", "worker"])
def test_two_rounds_by_hand(engine):
    state, outcome, room = played(clients_of(batches(3), batches(1)), engine=engine)
    assert sorted(outcome.kept) == [0, 1]
    for position in (0, 1):
        count, given = room(position)
        assert count.tolist() == [2] and count.dtype == np.int32
        assert given == pytest.approx(np.array([[4 - 0.075 * 2]]), abs=1e-6)  # k after the first round
    mean, rows = state.memory
    assert mean.tolist() == [1, 2] and sorted(rows.tolist()) == [[0, 1], [1, 1]]


def test_without_what_is_kept_it_is_refused():
    round_ = for_two()
    with open_engine("in-process"), pytest.raises(Exception, match="keep something"):
        play(round_, round_.start(START), clients_of(batches(1)), 1, 1)


@pytest.mark.parametrize("name", ["robust", "secure"])
def test_beside_other_aggregators(name):
    state, _, room = played(clients_of(batches(3), batches(1)), aggregator=name, seed=3)
    assert room(1)[0].tolist() == [5]
    assert state.memory[0] == pytest.approx([4, 2], abs=1e-3) and state.memory[1].tolist() == [[0, 4], [1, 4]]


def test_dp_does_not_cover_what_is_gathered():
    with pytest.raises(UserError, match="--aggregator dp"):
        build_round(task(), METHOD, Aggregation("dp"))


@pytest.mark.parametrize(
    ("bad", "engine"),
    [*((bad, "in-process") for bad in ("not finite", "failing", "empty")), ("not finite", "worker")],
)
def test_a_client_that_is_left_out_keeps_what_it_had(bad, engine):
    def broken(number):
        if number != 2:
            return batches(1)
        return {
            "not finite": batches(1, np.nan),
            "empty": batches(1).take(0),
            "failing": batches(1).map(lambda x, y: (tf.debugging.check_numerics(x / 0, "bad disk"), y)),
        }[bad]

    clients = [*clients_of(batches(3)), Client("sometimes", broken)]
    state, outcome, room = played(clients, 2, engine)
    assert list(outcome.left_out) == ["sometimes"] and list(outcome.kept) == [0]
    assert room(0)[0].tolist() == [2] and room(1)[0].tolist() == [1]
    assert state.memory[0][0] == 1 and state.memory[1][1].tolist() == [0, 0]  # nothing of it was gathered


def test_the_computation_keeps_it_for_those_that_are_not_finite():
    """Whoever calls `next` itself is safe too."""
    round_ = for_two()
    kept = [round_.first_kept(START, 7)] * 2
    with open_engine("in-process"):
        after = round_.next(round_.start(START), [0, 1], [batches(1), batches(1, np.nan)], kept=kept).kept
    assert [one[0].tolist() for one in after] == [[8], [7]] and after[1][1].tolist() == [[0]]


def test_it_is_read_once_and_in_turn():
    round_, order = for_two(), []

    def traced(client):
        def note(x, y):
            tf.numpy_function(lambda: order.append(f"trains {client}"), [], [])
            return x, y

        return batches(1).map(note)

    def read(position):
        order.append(f"reads {position}")
        return round_.first_kept(START)

    with open_engine("in-process"):
        play(round_, round_.start(START), clients_of(traced(0), traced(1)), 1, 2, kept=read)
    assert sorted(order) == ["reads 0", "reads 1", "trains 0", "trains 1"]
    # One client ahead at most: what the second keeps may be read while the first trains.
    assert order[0] == "reads 0" and order[-1] == "trains 1"


def test_an_argument_made_later_is_any_clients_argument():
    """Each position as one, through an engine that takes them as they are."""
    round_ = build_round(task(), FedAvg(learning_rate=0.1))
    with open_engine("in-process"):
        one = round_.next(round_.start(START), [0, 1], [batches(3), batches(1)])
        two = round_.next(round_.start(START), [Deferred(lambda: 0), Deferred(lambda: 1)], [batches(3), batches(1)])
    assert largest_difference(one[0].weights, two[0].weights) == 0 and np.array_equal(one[1], two[1])


def test_clients_that_also_test():
    class Both(tested.Tested, Keeping):
        pass

    spec = Task(task().model, DataAndTest.spec(tf.data.DatasetSpec(SPEC), SPEC), task().loss)
    data = [DataAndTest(batches(3), batches(1).take(0))]
    round_ = build_round(spec, Both(learning_rate=METHOD.learning_rate))
    with open_engine("in-process"):
        kept = round_.next(round_.start(START), [0], data, kept=[round_.first_kept(START, 2)]).kept
    assert kept[0][0].tolist() == [3]


def test_bytes():
    """What is kept does not cross; what is gathered does."""
    round_ = for_two()
    assert round_.bytes_down(2) == 2 * (8 + (8 + 2 * 8))
    assert round_.bytes_up(2) == 2 * (8 + 4 + 8 + 16)


def test_rounds_without_it_take_and_give_what_they_did():
    signature = build_round(task(), FedAvg()).computation.type_signature
    assert list(tff.structure.name_list(signature.parameter)) == ["state", "positions", "data"]
    assert len(signature.result) == 3


class Interrupted(Exception):
    pass


def sometimes(number):
    return batches(2, np.nan if number == 3 else 1.0)


CLIENTS = [*clients_of(batches(3)), Client("sometimes", sometimes)]


def run_once(folder, evaluate=lambda values, number: {}):
    round_ = for_two()
    with open_engine("in-process") as engine, Run(folder, "run", {}) as run:
        final = train(
            run, round_, START, CLIENTS, rounds=4, engine=engine, seed=5,
            evaluate=lambda trained: evaluate(trained.weights, len(run.rounds()) + 1),
        ).weights  # fmt: skip
        columns = [name for name in run.rounds().columns if name not in MEASURED_COLUMNS]
        files = sorted(path.name for path in run.folder.glob("kept-*"))
        return final, run.rounds()[columns], [run.kept(position) for position in (0, 1)], files


@pytest.mark.parametrize("place", ["between two clients", "in evaluation", "at the checkpoint"])
def test_a_run_that_was_killed_ends_like_one_that_was_not(place, tmp_path, monkeypatch):
    final, record, kept, files = run_once(tmp_path / "whole")
    assert record.bytes_state.tolist() == [for_two().bytes_state(2), 0, 0, 0] and for_two().bytes_state(2) > 0
    assert record.clients.tolist() == [2, 2, 1, 2] and [one[0].tolist() for one in kept] == [[9], [8]]
    # Of the last two rounds; the second client was left out of the third, so its file of the second is what it had.
    assert files == ["kept-2-1.npz", "kept-3-0.npz", "kept-4-0.npz", "kept-4-1.npz"]
    keep, save = Run.keep, Run.save
    for stop_at in (1, 2, 3, 4):

        def evaluate(values, number, stop_at=stop_at):
            if place == "in evaluation" and number == stop_at:
                raise Interrupted
            return {}

        def keep_or_stop(run, number, client, arrays, stop_at=stop_at):
            if place == "between two clients" and number == stop_at and client == 1:
                raise Interrupted
            keep(run, number, client, arrays)

        def save_or_stop(run, number, arrays, stop_at=stop_at):
            if place == "at the checkpoint" and number == stop_at:
                raise Interrupted
            save(run, number, arrays)

        monkeypatch.setattr(Run, "keep", keep_or_stop)
        monkeypatch.setattr(Run, "save", save_or_stop)
        if place == "between two clients" and stop_at == 3:
            continue  # the second client keeps nothing new in it
        with pytest.raises(Interrupted):
            run_once(tmp_path / "killed", evaluate)
    monkeypatch.setattr(Run, "keep", keep)
    monkeypatch.setattr(Run, "save", save)
    again, found, own, left = run_once(tmp_path / "killed")
    assert largest_difference(again, final) == 0 and found.equals(record) and left == files
    assert all(largest_difference(a, b) == 0 for a, b in zip(own, kept))
