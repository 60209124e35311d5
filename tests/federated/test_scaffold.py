"""SCAFFOLD: the optimum where FedAvg misses it, also with clients away; its variates by hand; what it reduces to."""

import numpy as np
import pytest

from tests.federated.quadratics import START, UNEQUAL, next_by_hand, optimum, played, round_of
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.round import build_round
from tffapps.federated.scaffold import Scaffold

METHOD = Scaffold(learning_rate=0.1)


def test_it_reaches_the_optimum():
    assert played(METHOD, rounds=16)[-1] == pytest.approx(optimum(UNEQUAL), abs=1e-4)


def test_clients_that_were_away_still_count():
    """The first is away at first, then the others in turn; the last rounds have all of them."""
    away = {1: {0}, 2: {1}, 3: {2}, 4: {1}}
    assert played(METHOD, rounds=20, away=away)[-1] == pytest.approx(optimum(UNEQUAL), abs=1e-4)


def test_the_first_round_and_correction_0_are_fedavg():
    first = next_by_hand(UNEQUAL, 0.1, START)
    plain = [first, next_by_hand(UNEQUAL, 0.1, first)]
    assert played(Scaffold(learning_rate=0.1, scaffold_correction=0.0), rounds=2) == pytest.approx(plain, abs=1e-5)
    found = played(METHOD, rounds=2)
    assert found[0] == pytest.approx(first, abs=1e-5) and abs(found[1] - plain[1]) > 1e-3


def test_the_variates_after_one_round_are_mean_gradients():
    round_ = round_of(METHOD)
    with open_engine("in-process"):
        data = [each.batches() for each in UNEQUAL]
        result = round_.next(
            round_.start([np.array([[START]], np.float32)]), [0, 1, 2], data, kept=[round_.first_kept([])] * 3
        )
    means = []
    for client in UNEQUAL:
        w, total = START, 0.0
        for _ in range(client.steps):
            gradient = client.curvature * (w - client.lowest)
            total, w = total + gradient, w - 0.1 * gradient
        means.append(total / client.steps)
    mean, examples = result.state.memory
    assert float(mean[0, 0]) == pytest.approx(np.average(means, weights=[8, 16, 8]), rel=1e-5) and examples == 32


def test_bytes_and_dp():
    round_ = round_of(METHOD)
    assert round_.bytes_down(2) == 2 * (4 + 4 + 4) and round_.bytes_up(2) == 2 * (4 + (4 + 4) + 4 + 16)
    with pytest.raises(UserError, match="dp"):
        build_round(round_.task, METHOD, Aggregation("dp"))
