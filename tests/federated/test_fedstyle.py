"""FedStyle: Eqs. 1 to 6 on numbers worked out by hand, what it reduces to, what is remembered and kept."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from models import classifiers, cut
from models.embedding import embedding_size, with_embedding
from tests.conftest import largest_difference
from tests.federated.embedded import (
    CLASSES,
    RATE,
    SIZE,
    SPEC,
    START,
    arrays,
    dataset,
    fedavg,
    played,
    style_by_hand,
    task,
)
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated.embeddings import Means, TrainingAndOnce, check_gradient
from tffapps.federated.fedproto import FedProto
from tffapps.federated.fedstyle import FedStyle, contrast, contrast_of, distance_of
from tffapps.federated.fpl import FPL
from tffapps.federated.local import Counted
from tffapps.federated.moon import Moon
from tffapps.federated.round import build_round

E = math.e
HELD = Means(tf.constant([[2.0, 0.0], [0.0, 1.0]]), tf.ones([2]))  # m'
TOLD = Means(tf.constant([[3.0, 0.0], [-1.0, 0.0]]), tf.ones([2]))  # ḡ
NONE = Means(tf.zeros([2, 2]), tf.zeros([2]))
SINGLE = [dataset(client, classes=(client,)) for client in range(CLASSES)]  # an artist each


def means(values, there):
    return Means(tf.constant(values, tf.float32), tf.constant(there, tf.float32))


def test_eq_3_by_hand():
    """Cosines of m = (5, 0): 1 and 0 with m', 1 and −1 with ḡ."""
    found = contrast(tf.constant([[5.0, 0.0], [0.0, 7.0]]), HELD, TOLD)
    of_first = ((E + E) + (1 + 1 / E)) / (E + E)
    of_second = ((1 + 1) + (E + 1)) / (E + 1)  # (0, 7): 0 and 1 with m', 0 and 0 with ḡ
    assert found.numpy() == pytest.approx([of_first, of_second], rel=1e-6)


def test_eq_3_without_some_styles():
    styles = tf.constant([[5.0, 0.0], [0.0, 7.0]])
    only_told = contrast(styles, NONE, TOLD).numpy()
    assert only_told == pytest.approx([(E + 1 / E) / E, 2], rel=1e-6)
    half = contrast(styles, means(HELD.values, [1, 0]), means(TOLD.values, [1, 0])).numpy()
    assert half == pytest.approx([1, 0], rel=1e-6)  # one style in all: it is the sum; the second class has none
    assert contrast(styles, NONE, NONE).numpy().tolist() == [0, 0]


def test_eq_1_and_the_mean_over_the_classes_of_a_batch():
    labels = tf.constant([0, 1, 0])
    vectors = tf.constant([[4.0, 1.0], [0.0, 7.0], [6.0, -1.0]])  # means (5, 0) and (0, 7)
    both = contrast(tf.constant([[5.0, 0.0], [0.0, 7.0]]), HELD, TOLD).numpy()
    assert float(contrast_of(labels, vectors, HELD, TOLD)) == pytest.approx(both.mean(), rel=1e-6)
    assert float(contrast_of(labels[::2], vectors[::2], HELD, TOLD)) == pytest.approx(both[0], rel=1e-6)
    one = means(TOLD.values, [1, 0])
    assert float(contrast_of(labels, vectors, NONE, one)) == pytest.approx(1)  # of the one class that has a style
    assert float(contrast_of(labels, vectors, NONE, NONE)) == 0


def test_eq_4_by_hand():
    labels, vectors = tf.constant([0, 1, 0]), tf.constant([[4.0, 1.0], [0.0, 7.0], [6.0, -1.0]])
    first, second = ((5 - 3) ** 2 + 0) / 2, ((0 + 1) ** 2 + 7**2) / 2
    assert float(distance_of(labels, vectors, TOLD)) == pytest.approx((first + second) / 2)
    assert float(distance_of(labels, vectors, means(TOLD.values, [1, 0]))) == pytest.approx(first)
    assert float(distance_of(labels, vectors, NONE)) == 0


@pytest.mark.parametrize("held", [HELD, NONE])
def test_eqs_2_and_5(held):
    method = FedStyle(style_ce=2, style_contrast=3, style_mse=5, style_server_ce=7, style_server_contrast=11)
    labels, vectors = tf.constant([0, 0]), tf.constant([[4.0, 1.0], [6.0, -1.0]])
    outputs = tf.constant([[0.5, 0.5], [0.25, 0.75]])
    entropy = np.log([2, 4])
    l2, l3 = float(contrast(tf.constant([[5.0, 0.0], [0.0, 0.0]]), held, TOLD)[0]), 2
    client = method.client_loss(task(), held, TOLD)(labels, vectors, outputs)
    assert client.numpy() == pytest.approx(2 * entropy + 3 * l2 + 5 * l3, rel=1e-5)
    server = method.server_loss(task(), held, TOLD)(labels, vectors, outputs)
    assert server.numpy() == pytest.approx(7 * entropy + 11 * l2, rel=1e-5)


def test_gradients_are_finite_where_vectors_are_zero():
    vectors = tf.Variable(tf.zeros([2, 2]))
    with tf.GradientTape() as tape:
        loss = contrast_of(tf.constant([0, 1]), vectors, HELD, NONE)
    assert np.isfinite(tape.gradient(loss, vectors)).all()


PLAIN = {"style_ce": 1.0, "style_contrast": 0.0, "style_mse": 0.0, "style_server_contrast": 0.0}


def test_without_styles_it_is_fedavg():
    data = [dataset(0), dataset(1, 8)]
    expected = played(fedavg(RATE), data)
    found = played(build_round(task(), FedStyle(learning_rate=RATE, **PLAIN)), data)
    for (one, _), (other, _) in zip(expected, found):
        assert largest_difference(one.weights, other.weights) == 0
    assert largest_difference(expected[-1][0].weights, START) > 1e-2


@pytest.fixture(scope="module")
def round_():
    return build_round(task(), FedStyle(learning_rate=0.01))


def test_the_first_round_has_cross_entropy_only(round_):
    """λ1 is 10: for plain SGD, ten times the rate."""
    [(expected, _)] = played(fedavg(0.1), SINGLE, 1)
    [(found, _)] = played(round_, SINGLE, 1)
    assert largest_difference(found.weights, expected.weights) < 1e-5


def test_a_clients_step_by_hand(round_):
    """One batch of one class, with the equations as the paper prints them."""
    rng = np.random.default_rng(3)
    told, held = (rng.normal(size=(CLASSES, SIZE)).astype(np.float32) for _ in range(2))
    own, images = 1, arrays(1, 4, classes=(1,))[0]
    labels, there = np.full(4, own, np.int32), np.ones(CLASSES, np.float32)
    data = tf.data.Dataset.from_tensors((images, labels))
    with open_engine("in-process"):
        state = round_.start(START)._replace(memory=[told, there])
        state, _, _, [kept] = round_.next(state, [0], [data], kept=[[held, there]])

    network = task().model
    with tf.GradientTape() as tape:
        vectors, outputs = with_embedding(network)(images, training=True)
        m = tf.reduce_mean(vectors, axis=0)
        sums = [similarity(m, held[j]) + similarity(m, told[j]) for j in range(CLASSES)]
        entropy = -tf.reduce_mean(tf.math.log(outputs[:, own]))
        loss = 10 * entropy + 0.05 * sum(sums) / sums[own] + 20 * tf.reduce_mean((m - told[own]) ** 2)
    variables = network.trainable_variables
    tf.keras.optimizers.SGD(0.01).apply_gradients(zip(tape.gradient(loss, variables), variables))
    assert largest_difference(state.weights, network.get_weights()) < 1e-5
    expected = told.copy()
    expected[own] = style_by_hand(network.get_weights(), [(images, labels)])[0][own]
    np.testing.assert_allclose(kept[0], expected, atol=1e-5)


def test_memory_and_what_is_kept_without_public_images(round_):
    """One client with two classes: its model is the global one, its styles the global ones."""
    pairs = [arrays(0, classes=(0, 2))]
    (first, kept), (second, later) = played(round_, [dataset(0, classes=(0, 2))])
    for state, (values, there) in ((first, kept[0]), (second, later[0])):
        by_hand, present = style_by_hand(state.weights, pairs)
        np.testing.assert_allclose(state.memory[0], by_hand, atol=1e-5)
        np.testing.assert_allclose(values, by_hand, atol=1e-5)
        assert state.memory[1].tolist() == present.tolist() == there.tolist() == [1, 0, 1]
    assert largest_difference(first.memory[:1], second.memory[:1]) > 1e-4


def test_the_set_held_is_the_own_style_and_the_global_ones_of_before(round_):
    (first, kept), (_, later) = played(round_, SINGLE)
    for client in range(CLASSES):
        own = np.arange(CLASSES) == client
        assert kept[client][1].tolist() == own.tolist()  # in the first round there were no others to be told
        values, there = later[client]
        assert there.tolist() == [1, 1, 1]
        np.testing.assert_array_equal(values[~own], first.memory[0][~own])
        assert np.abs(values[own] - first.memory[0][own]).max() > 1e-4
        np.testing.assert_allclose(first.memory[0][own], kept[client][0][own], atol=1e-6)  # one client has the class


def test_a_class_of_several_clients_is_weighted_by_its_images():
    """A rate so small that all models are the first one: the mean is over all images, whatever else clients have."""
    data = [dataset(0, 12), dataset(1, 4, classes=(0, 1))]
    [(state, _)] = played(build_round(task(), FedStyle(learning_rate=1e-12)), data, rounds=1)
    network = task().model
    sums, counts = np.zeros((CLASSES, SIZE)), np.zeros(CLASSES)
    for one, (images, labels) in zip(data, [arrays(0, 12), arrays(1, 4, classes=(0, 1))]):
        network.set_weights(START)
        for batch, _ in one:
            network(batch, training=True)  # the statistics do move, and apart
        values, there = style_by_hand(network.get_weights(), [(images, labels)])
        own = np.bincount(labels, minlength=CLASSES)
        sums, counts = sums + values * own[:, None], counts + own * there
    np.testing.assert_allclose(state.memory[0], sums / counts[:, None], atol=1e-5)


@pytest.fixture(scope="module")
def public():
    """Every image once, two epochs of them to train on; none of the last class."""
    once = dataset(9, classes=(0, 1))
    return TrainingAndOnce(once.repeat(2), once)


def similarity(a, b):
    return tf.exp(tf.reduce_sum(a * b) / (tf.norm(a) * tf.norm(b)))


def server_by_hand(weights, batches, method, before, collected):
    """Eq. 5 and 6 as the paper prints them, with Keras's SGD; `before` and `collected` by class, None where missing."""
    network = task().model
    network.set_weights([np.asarray(value) for value in weights])
    optimizer = tf.keras.optimizers.SGD(method.learning_rate, momentum=method.momentum)
    for images, labels in batches:
        with tf.GradientTape() as tape:
            vectors, outputs = with_embedding(network)(images, training=True)
            terms = []
            for i in np.unique(labels):
                m = tf.reduce_mean(vectors[labels == i], axis=0)
                sums = [sum(similarity(m, s) for s in pair if s is not None) for pair in zip(collected, before)]
                terms.append(sum(sums) / sums[i])
            entropy = tf.reduce_mean(task().loss(labels, outputs))
            loss = method.style_server_ce * entropy + method.style_server_contrast * sum(terms) / len(terms)
        optimizer.apply_gradients(zip(tape.gradient(loss, network.trainable_variables), network.trainable_variables))
    return network.get_weights()


def test_the_server_step_by_hand(public):
    """The second round's; the clients' part of it is FedAvg's, by settings."""
    method = FedStyle(learning_rate=0.01, momentum=0.5, **{**PLAIN, "style_server_contrast": 2.0})
    (first, _), (second, kept) = played(build_round(task(server=True), method), SINGLE, server_data=public)
    with open_engine("in-process"):
        start = fedavg(0.01, 0.5).start(first.weights)
        averaged = fedavg(0.01, 0.5).next(start, [0, 1, 2], SINGLE).state
    collected = [kept[client][0][client] for client in range(CLASSES)]
    values, there = first.memory
    before = [values[0], values[1], None]
    assert there.tolist() == [1, 1, 0]  # nothing public of the last class
    expected = server_by_hand(averaged.weights, public.training, method, before, collected)
    assert largest_difference(second.weights, expected) < 1e-4
    assert largest_difference(second.weights, averaged.weights) > 1e-2
    by_hand, there = style_by_hand(second.weights, [arrays(9, classes=(0, 1))])
    np.testing.assert_allclose(second.memory[0], by_hand, atol=1e-4)
    assert second.memory[1].tolist() == there.tolist() == [1, 1, 0]


@pytest.fixture(scope="module")
def whole():
    return build_round(task(server=True), FedStyle(learning_rate=0.01, momentum=0.5))


def test_engines_agree(whole, public):
    here = played(whole, SINGLE, server_data=public)
    there = played(whole, SINGLE, engine="worker", server_data=public)
    for (one, kept), (other, own) in zip(here, there):
        assert largest_difference(one.weights, other.weights) < 1e-5
        assert largest_difference(one.memory, other.memory) < 1e-4
        assert all(largest_difference(kept[client], own[client]) < 1e-4 for client in kept)


def test_bytes(whole):
    size, styles = sum(weight.nbytes for weight in START), 4 * CLASSES * (SIZE + 1)
    assert whole.bytes_down(2) == 2 * (size + styles)
    assert whole.bytes_up(2) == 2 * (size + styles + 16)


def test_a_schedule_for_the_clients_and_images_once(whole, public):
    """The server has none; a client's once is every image once, whatever it trains on."""
    spec = TrainingAndOnce.spec(SPEC, Counted.spec(SPEC))
    scheduled = dataclasses.replace(task(server=True), client_spec=spec)
    data = [TrainingAndOnce(Counted(one, np.int32(3)), one) for one in SINGLE]
    method = FedStyle(learning_rate=0.01, momentum=0.5, schedule="cosine")
    [(state, kept)] = played(build_round(scheduled, method), data, 1, server_data=public)
    [(constant, _)] = played(whole, SINGLE, 1, server_data=public)
    assert largest_difference(state.weights, constant.weights) > 1e-5
    assert [kept[client][1].tolist() for client in kept] == np.eye(CLASSES).tolist()


def gradients_of(loss, network):
    """The largest entry of a loss's gradient among the weights that train; the loss is of (labels, embeddings)."""
    images, labels = arrays_of_pictures()
    with tf.GradientTape() as tape:
        value = loss(labels, with_embedding(network)(images, training=True)[0])
    found = tape.gradient(value, network.trainable_variables)
    return max((float(tf.reduce_max(tf.abs(each))) for each in found if each is not None), default=0.0)


def arrays_of_pictures():
    rng = np.random.default_rng(3)
    return rng.random((6, 32, 32, 3), np.float32), tf.constant([0, 1, 2, 0, 1, 2])


def test_style_losses_reach_trained_weights_at_a_cut_and_none_of_a_bare_head():
    """L2 and L3 of clients, L5 of the server: at a cut below the embedding, and where only the classifier trains."""
    whole = classifiers.build("tiny", input_shape=(32, 32, 3), classes=3)
    width = embedding_size(whole)
    rng = np.random.default_rng(4)
    held, told = (means(rng.normal(size=(3, width)), [1, 1, 1]) for _ in range(2))
    losses = {
        "L2": lambda labels, vectors: contrast_of(labels, vectors, held, told),
        "L3": lambda labels, vectors: distance_of(labels, vectors, told),
        "L5": lambda labels, vectors: contrast_of(labels, vectors, told, held),
    }
    at_cut = classifiers.build("tiny", input_shape=(32, 32, 3), classes=3)
    cut.split(at_cut, "block2_pool")  # freezes what is below
    assert 0 < len(at_cut.trainable_variables) < len(whole.trainable_variables)
    bare = classifiers.build("tiny", input_shape=(32, 32, 3), classes=3, trainable_base=False)
    for name, loss in losses.items():
        assert gradients_of(loss, at_cut) > 1e-6, name
        assert gradients_of(loss, bare) == 0, name
    check_gradient(FedStyle(), at_cut)
    check_gradient(FedStyle(style_contrast=0, style_mse=0, style_server_contrast=0), bare)  # has no loss of its own
    for method in (FedStyle(), FedProto(), FPL(), Moon()):
        with pytest.raises(UserError, match=f"--methods {method.name}: its own loss .* no gradient; give --train-from"):
            check_gradient(method, bare)
