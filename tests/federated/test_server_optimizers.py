"""FedAdam, FedAdagrad and FedYogi: the server's first steps by hand, and the limit in which they are FedAvg."""

import numpy as np
import pytest
import tensorflow as tf

from tffapps.federated.fedadagrad import FedAdagrad
from tffapps.federated.fedadam import FedAdam
from tffapps.federated.fedyogi import FedYogi

FAR = 1e6


def steps(method, *updates):
    """What the server makes of mean updates, one after the other, from a model at 0."""
    optimizer = method.server_optimizer()
    weights = [tf.zeros(2)]
    state = optimizer.initialize([tf.TensorSpec([2], tf.float32)])
    for update in updates:
        state, weights = optimizer.next(state, weights, [-tf.constant(update)])
    return weights[0].numpy()


@pytest.mark.parametrize(
    "method",
    [
        FedAdam(adam_learning_rate=FAR, adam_epsilon=FAR, adam_beta1=0.0, adam_beta2=0.0),
        FedAdagrad(adagrad_learning_rate=FAR, adagrad_epsilon=FAR),
        FedYogi(yogi_learning_rate=FAR, yogi_epsilon=FAR, yogi_beta1=0.0, yogi_beta2=0.0),
    ],
    ids=lambda method: method.name,
)
def test_far_above_all_updates_it_is_fedavg(method):
    assert steps(method, [3.0, -0.5], [1.0, 0.25]) == pytest.approx([4, -0.25], abs=1e-4)


def test_adam_by_hand():
    """Corrected for their start the first moments are the update and its square; tau is divided by √(1 − 0.99)."""
    update = np.array([0.3, -0.04], np.float32)
    expected = 0.01 * update / (np.abs(update) + 1e-2)
    assert steps(FedAdam(), update) == pytest.approx(expected, abs=1e-6)


def test_adagrad_by_hand():
    first, second = np.array([0.3, -0.04], np.float32), np.array([-0.1, 0.04], np.float32)
    squares = 1e-6 + first**2
    expected = 0.1 * first / np.sqrt(squares) + 0.1 * second / np.sqrt(squares + second**2)
    assert steps(FedAdagrad(), first, second) == pytest.approx(expected, abs=1e-5)
