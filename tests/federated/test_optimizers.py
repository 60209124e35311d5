"""Adam by TensorFlow's kernel gives TFF's numbers, anew in every call."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import dataset, largest_difference
from tffapps.engine import open_engine
from tffapps.federated import local
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


def test_the_cosine_schedule_by_hand():
    share = [float(local.cosine(tf.constant(float(number)), tf.constant(4))) for number in range(6)]
    np.testing.assert_allclose(share, [1.0, 0.853553, 0.5, 0.146447, 0.0, 0.0], atol=1e-6)
    assert local.cosine(tf.constant(3.0), None) == 1.0


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_scaled_step_is_a_step_at_that_rate(name):
    gradient = tf.constant([3.0, -0.1])
    found = []
    for rate, scale in ((0.1, 0.5), (0.05, 1.0)):
        optimizer = FedAvg(optimizer=name, learning_rate=rate).client_optimizer()
        variable = tf.Variable([1.0, -2.0])
        state = optimizer.start([variable])
        for _ in range(3):  # the scale must not add up
            state = optimizer.step(state, [variable], [gradient], scale)
        found.append(variable.numpy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_the_schedule_needs_to_know_the_steps(tiny_task):
    with pytest.raises(ValueError, match="number of steps"):
        build_round(tiny_task, FedAvg(schedule="cosine"))


def test_a_scheduled_round(tiny_task, tiny_weights):
    """With one step in all the cosine is at its start, so it is plain; with two it is not."""
    task = dataclasses.replace(tiny_task, client_spec=local.Counted.spec(tiny_task.client_spec.element_spec))
    rounds = [build_round(task, FedAvg(learning_rate=0.1, schedule=name)) for name in ("constant", "cosine")]
    for steps, alike in ((1, True), (2, False)):
        data = local.Counted(dataset(0, count=8 * steps), np.int32(steps))
        with open_engine("in-process"):
            plain, falling = (play(r, r.start(tiny_weights), [Client("a", lambda _, d=data: d)], 1, 1) for r in rounds)
        assert (largest_difference(plain.state.weights, falling.state.weights) < 1e-7) == alike
