"""FPL: its losses by hand, FedAvg without them, the server's clusters from what every client sends."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tests.federated.embedded import CLASSES, RATE, SIZE, START, arrays, dataset, fedavg, played, style_by_hand, task
from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.finch import Clusters
from tffapps.federated.fpl import FPL, contrast, distance
from tffapps.federated.round import build_round

# Two clusters of the first class, one of the second, none of the third.
CLUSTERS = Clusters(
    tf.constant([[[2.0, 0.0], [0.0, 4.0]], [[-3.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]),
    tf.constant([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]),
)
LABELS, VECTORS = tf.constant([0, 1, 2]), tf.constant([[5.0, 0.0], [0.0, 6.0], [1.0, 1.0]])
DATA = [dataset(client) for client in range(5)]


def test_contrast_by_hand():
    """Cosines of (5, 0) with the three clusters: 1, 0, −1; of (0, 6): 0, 1, 0."""
    t = 0.5
    first = -np.log((np.exp(1 / t) + 1) / (np.exp(1 / t) + 1 + np.exp(-1 / t)))
    second = -np.log(1 / (1 + np.exp(1 / t) + 1))
    assert contrast(LABELS, VECTORS, CLUSTERS, t).numpy() == pytest.approx([first, second, 0], abs=1e-6)
    sharp = contrast(LABELS, VECTORS, CLUSTERS, 0.02).numpy()
    assert sharp == pytest.approx([0, 50, 0], abs=1e-4)  # e^50 of the wrong class against 1


def test_distance_by_hand():
    """The unbiased prototype of the first class is (1, 2), of the second (−3, 0)."""
    expected = [(4**2 + 2**2) / 2, (3**2 + 6**2) / 2, 0]
    assert distance(LABELS, VECTORS, CLUSTERS).numpy() == pytest.approx(expected)


def test_without_prototypes_there_is_cross_entropy_only():
    nothing = Clusters(*(tf.zeros_like(part) for part in CLUSTERS))
    outputs, vectors = tf.constant([[0.5, 0.25, 0.25]] * 3), tf.Variable(VECTORS)
    with tf.GradientTape() as tape:
        loss = FPL().loss(task(), nothing)(LABELS, vectors, outputs)
    assert loss.numpy() == pytest.approx(np.log([2, 4, 4]))
    assert not np.any(tape.gradient(loss, vectors))
    found = FPL(fpl_temperature=0.5, fpl_contrast=2, fpl_mse=3).loss(task(), CLUSTERS)(LABELS, VECTORS, outputs)
    parts = contrast(LABELS, VECTORS, CLUSTERS, 0.5), distance(LABELS, VECTORS, CLUSTERS)
    assert found.numpy() == pytest.approx(np.log([2, 4, 4]) + 2 * parts[0] + 3 * parts[1])


def test_without_its_terms_it_is_fedavg():
    data = DATA[:2]
    method = FPL(learning_rate=RATE, fpl_contrast=0.0, fpl_mse=0.0)
    expected = played(fedavg(RATE), data)
    found = played(build_round(task(), method, clients=2), data)
    assert largest_difference(expected[-1][0].weights, found[-1][0].weights) == 0


@pytest.fixture(scope="module")
def round_():
    return build_round(task(), FPL(learning_rate=0.01), clients=5)


def test_what_the_server_makes_of_prototypes():
    """Four clients in two directions of the first class, one of the second; nobody has the third."""
    method, told = FPL(), task()
    memory = [tf.fill([CLASSES, 2, 2], 9.0), tf.ones([CLASSES, 2])]
    rows = np.zeros((4, CLASSES, 2), np.float32)
    rows[:, 0] = [[1, 0], [0, 4], [3, 0], [0, 2]]
    rows[2, 1] = [7, 7]
    there = np.zeros((4, CLASSES), np.float32)
    there[:, 0] = there[2, 1] = 1
    five = dataclasses.replace(told, clients=5)  # one of them was left out
    values, filled = method.next_memory(five, memory, [tf.constant(rows), tf.constant(there)], [], [])
    assert values.numpy().tolist() == [[[2, 0], [0, 3]], [[7, 7], [0, 0]], [[9, 9], [9, 9]]]
    assert filled.numpy().tolist() == [[1, 1], [1, 0], [1, 1]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="fewer clients"):
        method.next_memory(
            dataclasses.replace(told, clients=3), memory, [tf.constant(rows), tf.constant(there)], [], []
        )


def test_engines_agree_and_prototypes_count(round_):
    here, there = played(round_, DATA), played(round_, DATA, engine="worker")
    for (one, _), (other, _) in zip(here, there):
        assert largest_difference(one.weights, other.weights) < 1e-5
        assert largest_difference(one.memory, other.memory) < 1e-4
    plain = played(fedavg(0.01), DATA)
    assert largest_difference(plain[0][0].weights, here[0][0].weights) < 1e-7  # the first round has no prototypes
    assert largest_difference(plain[1][0].weights, here[1][0].weights) > 1e-4
    assert here[0][0].memory[0].shape == (CLASSES, 2, SIZE)


def test_one_clients_prototypes_are_its_mean_embeddings(round_):
    [(state, _)] = played(round_, [dataset(0, classes=(0, 2))], rounds=1)
    by_hand, there = style_by_hand(state.weights, [arrays(0, classes=(0, 2))])
    np.testing.assert_allclose(state.memory[0][:, 0], by_hand, atol=1e-5)
    assert state.memory[1].tolist() == [[present, 0] for present in there]


def test_bytes_and_privacy(round_):
    size, prototypes = sum(weight.nbytes for weight in START), 4 * CLASSES * (SIZE + 1)
    assert round_.bytes_down(2) == 2 * (size + 2 * prototypes)
    assert round_.bytes_up(2) == 2 * (size + prototypes + 16)
    with pytest.raises(UserError, match="--aggregator dp: it does not cover what fpl gathers"):
        build_round(task(), FPL(), Aggregation("dp"))
