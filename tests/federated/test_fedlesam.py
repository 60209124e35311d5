"""FedLESAM: the second round by hand, what it reduces to, what the server sends along."""

import pytest

from tests.conftest import dataset, largest_difference
from tests.federated.line import played
from tests.federated.test_round import after
from tffapps.engine import open_engine
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedlesam import FedLESAM
from tffapps.federated.round import build_round


@pytest.fixture(scope="module")
def data():
    return [dataset(0), dataset(1, 16)]


@pytest.fixture(scope="module")
def expected(tiny_task, tiny_weights, data):
    """FedAvg's weights after one round and after two."""
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1))
    return [after(round_, tiny_weights, data, rounds)[0] for rounds in (1, 2)]


@pytest.fixture(scope="module")
def round_(tiny_task):
    return build_round(tiny_task, FedLESAM(learning_rate=0.1))


def test_two_rounds_by_hand():
    method = FedLESAM(learning_rate=0.1, lesam_rho=0.5)
    # At (4, 1), without a round before: output 4, distance 2.
    weights, loss = played(method)
    assert weights == pytest.approx([3.85, 0.8], abs=1e-6) and loss == pytest.approx(2)
    # The way back is (0.15, 0.2). At (3.85 + 0.3, 0.8 + 0.4): output 4.3125, distance 2.3125.
    weights, loss = played(method, rounds=2)
    assert weights == pytest.approx([3.85 - 0.1 * 2.3125 * 0.75, 0.8 - 0.1 * 2.3125], abs=1e-6)
    assert loss == pytest.approx(2.3125**2 / 2)


def test_the_first_round_is_fedavgs_and_the_second_is_not(round_, tiny_weights, data, expected):
    assert largest_difference(after(round_, tiny_weights, data, 1)[0], expected[0]) < 1e-6
    assert largest_difference(after(round_, tiny_weights, data, 2)[0], expected[1]) > 1e-4


def test_rho_0_is_fedavg_statistics_included(tiny_task, tiny_weights, data, expected):
    found, _ = after(build_round(tiny_task, FedLESAM(learning_rate=0.1, lesam_rho=0.0)), tiny_weights, data)
    assert largest_difference(found, expected[1]) < 1e-6


def test_the_server_remembers_the_model_before(round_, tiny_weights, data):
    trained = round_.layout.trained
    with open_engine("in-process"):
        first = round_.start(tiny_weights)
        assert largest_difference(first.memory, trained(tiny_weights)) == 0
        second = round_.next(first, [0, 1], data).state
        third = round_.next(second, [0, 1], data).state
    assert largest_difference(second.memory, trained(tiny_weights)) == 0
    assert largest_difference(third.memory, trained(second.weights)) == 0
    assert largest_difference(third.memory, trained(tiny_weights)) > 1e-3


def test_bytes(round_, tiny_weights):
    everything = sum(weight.nbytes for weight in tiny_weights)
    trained = sum(weight.nbytes for weight in round_.layout.trained(tiny_weights))
    assert round_.bytes_down(3) == 3 * (everything + trained)
    assert round_.bytes_up(3) == 3 * (everything + 16)
