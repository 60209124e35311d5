"""FedNova: no bias from unequal numbers of steps but what the rate leaves; FedAvg where they are equal."""

import numpy as np
import pytest

from tests.federated.quadratics import EQUAL_STEPS, START, UNEQUAL, fixed_point, next_by_hand, optimum, played, task
from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.fednova import FedNova
from tffapps.federated.round import build_round

METHOD = FedNova(learning_rate=0.04)


def test_the_bias_that_is_left_shrinks_with_the_rate():
    errors = {}
    for rate in (0.04, 0.02):
        end = fixed_point(UNEQUAL, rate, per_step=True)
        assert played(FedNova(learning_rate=rate), start=end)[0] == pytest.approx(end, abs=1e-6)
        errors[rate] = abs(end - optimum(UNEQUAL))
    first, *_, last = (abs(found - fixed_point(UNEQUAL, 0.04, per_step=True)) for found in played(METHOD, rounds=4))
    assert last < 0.3 * first  # it goes there, from afar
    assert errors[0.02] / errors[0.04] == pytest.approx(0.5, abs=0.07)
    tiny = 1e-6  # where FedAvg's own error does not go away
    assert abs(fixed_point(UNEQUAL, tiny, per_step=True) - optimum(UNEQUAL)) < 1e-4
    assert abs(fixed_point(UNEQUAL, tiny) - optimum(UNEQUAL)) > 0.1


def test_with_equal_steps_it_is_fedavg():
    expected = next_by_hand(EQUAL_STEPS, 0.04, START)
    assert played(METHOD, EQUAL_STEPS)[0] == pytest.approx(expected, abs=1e-5)
    assert abs(played(METHOD)[0] - next_by_hand(UNEQUAL, 0.04, START)) > 1e-2


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_length_of_the_way_by_simulation(momentum):
    """Under a gradient of 1 the model has moved by the length times the rate."""
    velocity, way = 0.0, 0.0
    for _ in range(7):
        velocity = momentum * velocity + 1
        way += velocity
    assert float(FedNova(momentum=momentum).length(np.float32(7))) == pytest.approx(way, rel=1e-5)
    assert FedNova(momentum=momentum, optimizer="adam").length(7.0) == 7


def test_dp_is_refused():
    with pytest.raises(UserError, match="--aggregator dp: not with fednova"):
        build_round(task(), FedNova(), Aggregation("dp"))
