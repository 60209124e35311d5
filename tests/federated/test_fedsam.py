"""FedSAM: one step by hand, what it reduces to, and what it leaves as it was."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import dataset, largest_difference
from tests.federated.line import played
from tests.federated.test_round import after
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedsam import FedSAM
from tffapps.federated.perturbed import beside, of_length
from tffapps.federated.round import build_round


def test_one_step_by_hand():
    # At (4, 1): output 4, distance 2. At (4.3, 1.4): output 4.625, distance 2.625.
    weights, loss = played(FedSAM(learning_rate=0.1, sam_rho=0.5))
    assert weights == pytest.approx([4 - 0.1 * 2.625 * 0.75, 1 - 0.1 * 2.625], abs=1e-6)
    assert loss == pytest.approx(2)


def test_without_a_gradient_nothing_moves():
    weights, loss = played(FedSAM(learning_rate=0.1, sam_rho=0.5), target=4.0)
    assert weights == [4, 1] and loss == 0


def test_rho_0_is_fedavg_statistics_included(tiny_task, tiny_weights):
    data = [dataset(0), dataset(1, 16)]
    expected, reports = after(build_round(tiny_task, FedAvg(learning_rate=0.1)), tiny_weights, data)
    found, own = after(build_round(tiny_task, FedSAM(learning_rate=0.1, sam_rho=0.0)), tiny_weights, data)
    assert largest_difference(found, expected) < 1e-6
    np.testing.assert_allclose(own, reports, atol=1e-6)


def test_statistics_come_from_the_pass_at_the_weights(tiny_task, tiny_weights):
    """After one step they are those of FedAvg, wherever the gradient was taken."""
    plain, sharp = (build_round(tiny_task, method(learning_rate=0.1)) for method in (FedAvg, FedSAM))
    (expected, _), (found, _) = (after(round_, tiny_weights, [dataset(0, 8)], rounds=1) for round_ in (plain, sharp))
    split = plain.layout
    assert largest_difference(split.statistics(found), split.statistics(expected)) < 1e-6
    assert largest_difference(split.statistics(found), split.statistics(tiny_weights)) > 1e-3
    assert largest_difference(split.trained(found), split.trained(expected)) > 1e-4


def test_variables_come_back_to_the_last_bit():
    variables = [tf.Variable([1e8, 0.1]), tf.Variable(3.0)]
    before = [variable.numpy() for variable in variables]
    seen = beside(variables, [tf.constant([0.3, 7e7]), tf.constant(-1.0)], lambda: [v.numpy() for v in variables])
    assert seen[0][1] == pytest.approx(7e7) and seen[1] == 2
    assert all((old == new.numpy()).all() for old, new in zip(before, variables))


def test_a_direction_at_a_length():
    (first, second) = of_length(0.5, [tf.constant([[3.0]]), tf.constant([0.0, -4.0])])
    np.testing.assert_allclose(first, [[0.3]], rtol=1e-6)
    np.testing.assert_allclose(second, [0, -0.4], rtol=1e-6)
    np.testing.assert_array_equal(of_length(0.5, [tf.zeros([2])])[0], [0, 0])
