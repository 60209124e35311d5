"""Aggregators against bad clients, in a round: who is counted, who is refused, what the statistics become."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.federated.quadratics import UNEQUAL, Parabola, played, task
from tffapps.engine import open_engine
from tffapps.errors import RunStopped, UserError
from tffapps.federated.aggregation import AGAINST_BAD, Aggregation
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fednova import FedNova
from tffapps.federated.round import build_round
from tffapps.federated.statistics import build_reestimation

VALUE = tff.to_type([tff.TensorType(np.float32, [2]), tff.TensorType(np.float32, [])])
ROWS = [[1, 10, 5], [2, 20, 6], [3, 30, 7], [4, 40, 8], [900, -900, 900]]
ONE_BAD = {  # by hand: three numbers of five clients, the last of which sends anything
    "median": [3, 20, 7],
    "trimmed-mean": [3, 20, 7],
    "krum": [2, 20, 6],  # its two nearest are 102 away, as are the third's; it comes first
    "multi-krum": [2.5, 25, 6.5],
    "norm-bound": None,
    "geometric-median": None,
}


def through_tff(aggregation, rows, weights):
    process = aggregation.factory(len(rows)).create(VALUE, tff.TensorType(np.float32))
    with open_engine("in-process"):
        values = [[np.array(row[:2], np.float32), np.float32(row[2])] for row in rows]
        result = process.next(process.initialize(), values, [np.float32(weight) for weight in weights]).result
    return [*np.asarray(result[0]), float(result[1])]


@pytest.mark.parametrize("name", AGAINST_BAD)
def test_one_bad_client_of_five(name):
    """They count the same whatever they claim."""
    weights = tf.constant([1.0, 1.0, 1.0, 1.0, 1e6 if name != "norm-bound" else 1.0])
    found = Aggregation(name).factory(5).rule(tf.constant(ROWS, tf.float32), weights, tf.constant(0.0))[0].numpy()
    if ONE_BAD[name]:
        assert found == pytest.approx(ONE_BAD[name])
    else:
        assert np.all(np.abs(found) < 50)


def test_through_tff():
    """A client that was left out, of weight 0, is not counted; nor is who says that it is well and sends no numbers."""
    rows = [*ROWS, [0, 0, 0], [np.nan, 1, 1], [1, 1, np.inf], [2, 2, 2]]
    found = through_tff(Aggregation("trimmed-mean"), rows, [1, 1, 1, 1, 1, 0, 1, 1, np.nan])
    assert found == pytest.approx(ONE_BAD["trimmed-mean"])


def test_fewer_clients_than_it_needs_are_refused():
    with pytest.raises(UserError, match="--byzantine 1 it needs 5 clients, and there are 3"):
        build_round(task(), FedAvg(), Aggregation("krum"), clients=3)
    with pytest.raises(UserError, match="--byzantine 2 it needs 5 clients, and there are 4"):
        build_round(task(), FedAvg(), Aggregation("trimmed-mean", byzantine=2), clients=4)


def test_a_round_in_which_too_few_took_part_is_refused():
    round_ = build_round(task(), FedAvg(learning_rate=0.1), Aggregation("trimmed-mean"), clients=3)
    good, none = UNEQUAL[0].batches(), UNEQUAL[0].batches().take(0)
    start = round_.start([np.array([[2.0]], np.float32)])
    with open_engine("in-process"):
        clients = [Client(name, lambda _: good) for name in "abc"]
        assert play(round_, start, clients, 1, 1).took_part == 3
        clients[1] = Client("b", lambda _: none)
        with pytest.raises(
            RunStopped, match=r"only 2 of 3 clients could take part, 3 needed \(--aggregator\); b: no usable"
        ):
            play(round_, start, clients, 1, 1)


def test_what_it_cannot_cover_is_refused(tiny_task):
    with pytest.raises(UserError, match="does not cover what the clients of fednova send"):
        build_round(task(), FedNova(), Aggregation("median"), clients=3)
    with pytest.raises(UserError, match="--reestimate: --aggregator median"):
        build_reestimation(tiny_task, Aggregation("median"))


def test_a_federation_with_a_liar():
    """One client of three says that the optimum is far away, and that it has most of the examples."""
    clients = (UNEQUAL[1], UNEQUAL[1], Parabola(4.0, 1e4, 8, 200))
    assert played(FedAvg(learning_rate=0.1), clients)[0] > 1000
    assert 2 < played(FedAvg(learning_rate=0.1), clients, aggregation=Aggregation("median"))[0] < 3


def test_which_are_told_how_many_are_bad():
    told = {name: Aggregation(name).against(3).byzantine for name in AGAINST_BAD}
    assert told == {**dict.fromkeys(AGAINST_BAD, 1), "trimmed-mean": 3, "krum": 3, "multi-krum": 3}
    assert Aggregation("krum", byzantine=4).against(3).byzantine == 4 and Aggregation().against(3) == Aggregation()
