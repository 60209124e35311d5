"""Some of the clients are drawn for each round: the same after a kill, with what they keep, and in the record."""

import collections

import pytest

from tests.conftest import largest_difference
from tests.federated.line import START, task
from tests.federated.test_kept import Keeping
from tests.federated.test_memory import batches
from tffapps.app import Common
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.sampling import Sampling
from tffapps.runs import Run
from tffapps.training import MEASURED_COLUMNS, train

ROUNDS, CLIENTS, COHORT = 4, 5, 2


def test_draws_depend_on_seed_and_round_alone():
    some = Sampling(1000, 50, seed=3)
    first = some.positions(1)
    assert first == sorted(set(first)) and len(first) == 50 and first[0] >= 0 and first[-1] < 1000
    assert Sampling(1000, 50, seed=3).positions(1) == first
    assert some.positions(2) != first and Sampling(1000, 50, seed=4).positions(1) != first


@pytest.mark.parametrize("per_round", [0, 5, 9])
def test_all_are_asked_unless_fewer_are_wanted(per_round):
    everyone = Sampling(5, per_round)
    assert everyone.positions(7) == [0, 1, 2, 3, 4] and everyone.cohort == 5 and everyone.most_rounds(7) == 7


def test_everyone_is_drawn_as_often_as_the_others():
    some = Sampling(20, 5, seed=0)
    asked = collections.Counter(position for number in range(1, 401) for position in some.positions(number))
    assert some.most_rounds(400) == max(asked.values())
    assert len(asked) == 20 and min(asked.values()) > 70 and max(asked.values()) < 130  # 100 ± 8.7 each


def test_a_cohort_that_cannot_be_is_refused():
    with pytest.raises(UserError, match="--clients-per-round 4: there are only 3 clients; 0 is all"):
        Common(clients_per_round=4).check_clients(3)
    with pytest.raises(UserError, match="--min-clients 3: only 2 play a round"):
        Common(clients_per_round=2, min_clients=3).check_clients(3)
    Common(clients_per_round=3, min_clients=3).check_clients(3)


def clients():
    data = [batches(1 + position, float(position)) for position in range(CLIENTS)]
    return [Client(f"client {position}", lambda number, own=own: own) for position, own in enumerate(data)]


class Killed(Exception):
    pass


def play(folder, round_, rounds=ROUNDS, stop_at=0):
    def evaluate(trained):
        if trained.number == stop_at:
            raise Killed
        return {"accuracy": float(trained.weights[0].sum())}

    with open_engine("in-process") as engine, Run(folder, "run", {}) as run:
        final = train(
            run, round_, START, clients(), rounds=rounds, engine=engine, evaluate=evaluate, seed=1,
            clients_per_round=COHORT,
        )  # fmt: skip
        counts = {position: int(kept[0][0]) for position in range(CLIENTS) if (kept := run.kept(position))}
        return final.weights, run.rounds().drop(columns=list(MEASURED_COLUMNS)), run.clients(), counts


def test_a_killed_run_draws_the_same_clients_and_clients_keep_what_is_theirs(tmp_path):
    round_ = build_round(task(), Keeping(learning_rate=0.01), clients=COHORT)
    expected, record, took_part, counts = play(tmp_path / "whole", round_)
    drawn = [Sampling(CLIENTS, COHORT, seed=1).positions(number) for number in range(1, ROUNDS + 1)]
    assert record.clients.tolist() == [COHORT] * ROUNDS
    names = [[int(name.split()[1]) for name in rows.client] for _, rows in took_part.groupby("round")]
    assert names == drawn
    often = collections.Counter(position for positions in drawn for position in positions)
    assert max(often.values()) > 1
    assert counts == {position: 1 + often[position] for position in often}  # it begins with the seed, 1
    for stop_at in (1, 3):
        with pytest.raises(Killed):
            play(tmp_path / "killed", round_, stop_at=stop_at)
    weights, found, clients_found, kept = play(tmp_path / "killed", round_)
    assert largest_difference(weights, expected) == 0 and kept == counts
    assert found.equals(record) and clients_found.equals(took_part)


def test_bytes_and_privacy_are_those_of_the_clients_that_were_drawn(tmp_path):
    aggregation = Aggregation("dp")
    round_ = build_round(task(), FedAvg(learning_rate=0.01), aggregation, clients=COHORT)
    _, record, _, _ = play(tmp_path, round_)
    sampling = Sampling(CLIENTS, COHORT, seed=1)
    assert record.bytes_down.tolist() == [round_.bytes_down(COHORT)] * ROUNDS
    expected = [round(aggregation.epsilon(sampling.most_rounds(number)), 4) for number in range(1, ROUNDS + 1)]
    assert record.epsilon.tolist() == expected
    assert expected[-1] < aggregation.epsilon(ROUNDS)  # nobody was in all of them
