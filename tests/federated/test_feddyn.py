"""FedDyn: the optimum where FedAvg misses it, also when clients are away; what it reduces to."""

import pytest

from tests.federated.quadratics import START, UNEQUAL, next_by_hand, optimum, played
from tffapps.federated.feddyn import FedDyn

METHOD = FedDyn(learning_rate=0.1, dyn_alpha=2.0)


def test_it_reaches_the_optimum():
    assert played(METHOD, rounds=20)[-1] == pytest.approx(optimum(UNEQUAL), abs=1e-4)


def test_clients_that_were_away_still_count():
    away = {1: {0}, 2: {1}, 3: {2}, 4: {1}}
    assert played(METHOD, rounds=24, away=away)[-1] == pytest.approx(optimum(UNEQUAL), abs=1e-4)


def test_alpha_0_is_fedavg():
    first = next_by_hand(UNEQUAL, 0.1, START)
    plain = [first, next_by_hand(UNEQUAL, 0.1, first)]
    assert played(FedDyn(learning_rate=0.1, dyn_alpha=0.0), rounds=2) == pytest.approx(plain, abs=1e-5)
    assert abs(played(METHOD)[0] - plain[0]) > 1e-2


def test_the_second_round_by_hand():
    """The first round is FedProx's.

    h is the mean of what the clients have taken off their g_i, and all begin h / alpha away from the mean model.
    """
    w, ends = START, []
    for client in UNEQUAL:
        v = w
        for _ in range(client.steps):
            v -= 0.1 * (client.curvature * (v - client.lowest) + 2.0 * (v - w))
        ends.append(v)
    share = [each.examples / 32 for each in UNEQUAL]
    mean = sum(p * v for p, v in zip(share, ends))
    own = [-2.0 * (v - w) for v in ends]
    begin = mean - sum(p * g for p, g in zip(share, own)) / 2.0
    second = 0.0
    for client, p, g in zip(UNEQUAL, share, own):
        v = begin
        for _ in range(client.steps):
            v -= 0.1 * (client.curvature * (v - client.lowest) - g + 2.0 * (v - begin))
        second += p * v
    assert played(METHOD, rounds=2) == pytest.approx([mean, second], abs=1e-5)
