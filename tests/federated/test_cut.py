"""Rounds on what crosses a cut are rounds of the whole network whose lower part is frozen."""

import numpy as np
import pytest
import tensorflow as tf

from models.assembled import assemble
from tffapps.data import pipeline
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

SIDE, CLASSES, ROUNDS = 32, 3, 2
RNG = np.random.default_rng(0)
CLIENTS = {name: (RNG.random((count, SIDE, SIDE, 3), np.float32), RNG.integers(0, CLASSES, count)) for name, count in
           (("a", 12), ("b", 7))}  # fmt: skip


def played(model, initial, images):
    """The weights after the rounds, of clients whose images are these."""
    spec = tf.TensorSpec(model.input_shape, tf.float32), tf.TensorSpec((None,), tf.int32)
    round_ = build_round(Task.of_batches(model, spec, cross_entropy), FedAvg(learning_rate=0.01), clients=2)
    clients = [
        Client(name, lambda number, x=images[name], y=labels: pipeline.from_arrays(x, y, batch=4, seed=number))
        for name, (_, labels) in CLIENTS.items()
    ]
    state = round_.start(initial)
    with open_engine("in-process", None):
        for number in range(1, ROUNDS + 1):
            outcome = play(round_, state, clients, number, 2)
            state = outcome.state
    return dict(zip([variable.name for variable in model.weights], round_.result(state)))


@pytest.mark.parametrize(
    ("name", "cut", "head", "norm"),
    [
        ("tiny", "head", "gap", "batch"),
        ("tiny", "block1_pool", "gap", "batch"),
        ("tiny", "block1_pool", "gap", "frozen"),
        ("tiny", "block2_pool", "conv", "frozen"),
        ("mobilenetv2", "block_12_add", "conv", "batch"),
        pytest.param("mobilenetv2", "block_13", "gap", "frozen", marks=pytest.mark.slow),
    ],
)
def test_above_a_cut_as_in_the_whole_network(name, cut, head, norm):
    network = assemble(name, input_shape=(SIDE, SIDE, 3), classes=CLASSES, head=head, cut=cut, norm=norm)
    network.load("random", seed=1)
    initial = {variable.name: variable.numpy() for variable in network.whole.weights}
    crossing = {client: network.base(images, training=False).numpy() for client, (images, _) in CLIENTS.items()}
    above = played(network.above, network.above.get_weights(), crossing)
    network.load("random", seed=1)
    images = {client: images for client, (images, _) in CLIENTS.items()}
    whole = played(network.whole, network.whole.get_weights(), images)
    assert set(above) < set(whole)
    for variable, values in whole.items():
        if variable in above:
            np.testing.assert_allclose(above[variable], values, atol=1e-5, err_msg=variable)
        else:
            assert np.array_equal(values, initial[variable]), f"{variable} is below the cut and has moved"
    trained = {variable.name for variable in network.above.trainable_variables}
    assert max(np.abs(above[variable] - initial[variable]).max() for variable in trained) > 1e-3
