"""Adam by TensorFlow's kernel gives TFF's numbers, anew in every call."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import dataset, largest_difference
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.optimizers import Adam, Functional
from tffapps.federated.round import build_round


def steps(optimizer, count: int) -> list[np.ndarray]:
    variables = [tf.Variable([[1.0, -2.0], [0.5, 3.0]]), tf.Variable([0.1, 0.2])]

    @tf.function
    def run():
        state = optimizer.start(variables)
        for _ in tf.range(count):
            state = optimizer.step(state, variables, [tf.sin(variable) for variable in variables])

    run()
    run()  # a second training begins with moments of zero
    return [variable.numpy() for variable in variables]


def test_the_kernel_and_tffs_adam_agree():
    ours = steps(Adam(0.05), 7)
    theirs = steps(Functional(tff.learning.optimizers.build_adam(0.05)), 7)
    assert largest_difference(ours, theirs) < 1e-5


def test_the_first_step_by_hand():
    # After one step both moments are the gradient's own, so the step is the learning rate, against its sign.
    variable = tf.Variable([1.0, -2.0])
    optimizer = Adam(0.05)
    optimizer.step(optimizer.start([variable]), [variable], [tf.constant([3.0, -0.1])])
    np.testing.assert_allclose(variable.numpy(), [0.95, -1.95], atol=1e-5)


def test_in_a_round(tiny_task, tiny_weights):
    """As TFF's own Adam in the same round: the moments are variables of the client's computation."""

    class WithTffs(FedAvg):
        def client_optimizer(self):
            return Functional(tff.learning.optimizers.build_adam(self.learning_rate))

    clients = [Client(str(number), lambda _, number=number: dataset(number)) for number in range(2)]
    found = []
    for kind in (FedAvg, WithTffs):
        round_ = build_round(tiny_task, kind(optimizer="adam", learning_rate=0.01))
        with open_engine("in-process"):
            state = play(round_, round_.start(tiny_weights), clients, 1, 1).state
            found.append(play(round_, state, clients, 2, 1).state.weights)
    assert largest_difference(*found) < 1e-4
