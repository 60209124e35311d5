"""FedAvg on unequal parabolas ends where theory says, which is not the optimum."""

import pytest

from tests.federated.quadratics import EQUAL_STEPS, START, UNEQUAL, fixed_point, next_by_hand, optimum, played
from tffapps.federated.fedavg import FedAvg


@pytest.mark.parametrize("clients", [UNEQUAL, EQUAL_STEPS], ids=["unequal steps", "equal steps"])
def test_it_ends_at_its_fixed_point_beside_the_optimum(clients):
    assert played(FedAvg(learning_rate=0.1), clients)[0] == pytest.approx(next_by_hand(clients, 0.1, START), abs=1e-5)
    method, end = FedAvg(learning_rate=0.1), fixed_point(clients, 0.1)
    assert played(method, clients, start=end)[0] == pytest.approx(end, abs=1e-6)
    first, *_, last = (abs(found - end) for found in played(method, clients, 4))
    assert last < 0.2 * first  # it goes there, from afar
    assert abs(end - optimum(clients)) > 0.02


def test_numbers_by_hand():
    assert optimum(UNEQUAL) == pytest.approx((8 * 0 + 64 * 3 - 16) / 88)
    moved = [1 - 0.9**2, 1 - 0.6**8, 1 - 0.8**4]
    weights = [8 * moved[0], 16 * moved[1], 8 * moved[2]]
    assert fixed_point(UNEQUAL, 0.1) == pytest.approx((3 * weights[1] - weights[2]) / sum(weights))
