"""A run that is interrupted anywhere ends like one that is not."""

import numpy as np
import pytest

from tests.conftest import dataset, largest_difference
from tffapps.engine import open_engine
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedlesam import FedLESAM
from tffapps.federated.fedyogi import FedYogi
from tffapps.federated.round import build_round
from tffapps.runs import Run
from tffapps.training import MEASURED_COLUMNS, train

ROUNDS = 3
CLIENTS = [
    Client("one", lambda number: dataset(number)),
    Client("two", lambda number: dataset(10 + number, 16)),
]


class Interrupted(Exception):
    pass


@pytest.fixture(scope="module", params=["fedavg mean", "fedyogi robust", "fedlesam mean"])
def round_(request, tiny_task):
    """The second one carries state of an optimiser and of an aggregator, the third memory of its method."""
    if request.param == "fedavg mean":
        return build_round(tiny_task, FedAvg(learning_rate=0.1))
    if request.param == "fedlesam mean":
        return build_round(tiny_task, FedLESAM(learning_rate=0.1))
    return build_round(tiny_task, FedYogi(learning_rate=0.1), Aggregation("robust"))


def run_once(folder, round_, weights, evaluate=lambda weights, number: {"accuracy": float(weights[0].sum())}):
    """`evaluate` is given the weights and the number of the round that is not in the record yet."""
    with open_engine("in-process") as engine, Run(folder, "run", {"seed": 0}) as run:
        final = train(
            run, round_, weights, CLIENTS, rounds=ROUNDS, engine=engine,
            evaluate=lambda trained: evaluate(trained.weights, len(run.rounds()) + 1),
        ).weights  # fmt: skip
        return final, run.rounds().drop(columns=list(MEASURED_COLUMNS))


def test_interrupted_at_every_round_and_place(round_, tiny_weights, tmp_path, monkeypatch):
    expected, record = run_once(tmp_path / "whole", round_, tiny_weights)
    assert record["round"].tolist() == [1, 2, 3] and record.clients.tolist() == [2, 2, 2]
    save = Run.save
    for place in ("before the row", "between row and checkpoint"):
        folder = tmp_path / place
        for stop_at in range(1, ROUNDS + 1):

            def evaluate(values, number, stop_at=stop_at, place=place):
                if number == stop_at and place == "before the row":
                    raise Interrupted
                return {"accuracy": float(values[0].sum())}

            def save_or_stop(run, number, arrays, stop_at=stop_at, place=place):
                if number == stop_at and place == "between row and checkpoint":
                    raise Interrupted
                save(run, number, arrays)

            monkeypatch.setattr(Run, "save", save_or_stop)
            with pytest.raises(Interrupted):
                run_once(folder, round_, tiny_weights, evaluate)
        monkeypatch.setattr(Run, "save", save)
        weights, found = run_once(folder, round_, tiny_weights)
        assert largest_difference(weights, expected) == 0
        assert found.equals(record)


def test_a_finished_run_plays_nothing_again(round_, tiny_weights, tmp_path):
    run_once(tmp_path, round_, tiny_weights)

    def never(values, number):
        raise AssertionError("played again")

    run_once(tmp_path, round_, tiny_weights, never)


def test_tensorboard_logs(tiny_task, tiny_weights, tmp_path):
    round_ = build_round(tiny_task, FedAvg())
    with open_engine("in-process") as engine, Run(tmp_path, "run", {}) as run:
        train(
            run, round_, tiny_weights, CLIENTS, rounds=1, engine=engine, tensorboard=True,
            evaluate=lambda trained: {"accuracy": 0.5},
        )  # fmt: skip
        assert list((run.folder / "tensorboard").glob("events*"))


def test_epsilon_is_recorded(tiny_task, tiny_weights, tmp_path):
    round_ = build_round(tiny_task, FedAvg(), Aggregation("dp"), clients=2)
    _, record = run_once(tmp_path, round_, tiny_weights)
    assert record.epsilon.is_monotonic_increasing and np.isfinite(record.epsilon).all()


def test_left_out_clients_are_in_the_record(tiny_task, tiny_weights, tmp_path):
    round_ = build_round(tiny_task, FedAvg())
    clients = [*CLIENTS, Client("gone", lambda number: dataset(0).take(0))]
    with open_engine("in-process") as engine, Run(tmp_path, "run", {}) as run:
        train(run, round_, tiny_weights, clients, rounds=1, engine=engine, evaluate=lambda trained: {})
        assert run.rounds().left_out.tolist() == ["gone (no usable examples)"]
