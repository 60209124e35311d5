"""FedAdam and FedAdagrad: the first round by hand, and the limit in which they are FedAvg."""

import pytest

from tests.federated.quadratics import played
from tffapps.federated.fedadagrad import FedAdagrad
from tffapps.federated.fedadam import FedAdam
from tffapps.federated.fedavg import FedAvg

RATE, FAR = 0.1, 1e4


@pytest.fixture(scope="module")
def fedavg():
    return played(FedAvg(learning_rate=RATE), rounds=3)


@pytest.mark.parametrize(
    "method",
    [
        FedAdam(learning_rate=RATE, adam_learning_rate=FAR, adam_epsilon=FAR, adam_beta1=0.0, adam_beta2=0.0),
        FedAdagrad(learning_rate=RATE, adagrad_learning_rate=FAR, adagrad_epsilon=FAR),
    ],
    ids=lambda method: method.name,
)
def test_far_above_all_updates_it_is_fedavg(method, fedavg):
    assert played(method, rounds=3) == pytest.approx(fedavg, abs=1e-3)


def test_first_steps_by_hand(fedavg):
    update = fedavg[0] - 2.0
    # Corrected for their start, Adam's first moments are the update and its square; tau is divided by √(1 − 0.99).
    expected = 2.0 + 0.01 * update / (abs(update) + 1e-2)
    assert played(FedAdam(learning_rate=RATE))[0] == pytest.approx(expected, abs=1e-5)
    expected = 2.0 + 0.1 * update / (update**2 + 1e-6) ** 0.5
    assert played(FedAdagrad(learning_rate=RATE))[0] == pytest.approx(expected, abs=1e-5)
