"""MOON: its loss by hand, which models it compares with, what it reduces to."""

import math

import numpy as np
import pytest
import tensorflow as tf

from models.embedding import embedding_of
from tests.conftest import largest_difference
from tests.federated import embedded
from tests.federated.embedded import RATE, dataset, fedavg, played
from tffapps.federated.moon import Moon, contrast
from tffapps.federated.round import build_round

DATA = [dataset(0), dataset(1, 8)]


@pytest.fixture(scope="module")
def round_():
    return build_round(embedded.task(), Moon(learning_rate=RATE, moon_mu=5.0))


@pytest.fixture(scope="module")
def moon(round_):
    """The states and what clients keep, after each of two rounds."""
    return played(round_, DATA)


@pytest.fixture(scope="module")
def plain():
    return played(fedavg(RATE), DATA)


def test_the_contrast_by_hand():
    vectors = tf.constant([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    positive = tf.constant([[5.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    negative = tf.constant([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0]])
    # Cosines with the positive 1, 0, 0.71 and with the negative 0, 1, 0.71; divided by 0.5.
    found = contrast(vectors, positive, negative, 0.5)
    by_hand = [-math.log(math.exp(2) / (math.exp(2) + 1)), -math.log(1 / (1 + math.exp(2))), math.log(2)]
    assert found.numpy() == pytest.approx(by_hand, abs=1e-6)


def test_the_first_round_is_fedavgs_and_the_second_is_not(moon, plain):
    assert largest_difference(moon[0][0].weights, plain[0][0].weights) < 1e-6
    assert largest_difference(moon[1][0].weights, plain[1][0].weights) > 1e-4


def test_a_client_keeps_the_model_it_ended_with(moon):
    _, kept = moon[0]
    examples = [12, 8]
    by_hand = [np.average([a, b], axis=0, weights=examples) for a, b in zip(kept[0], kept[1])]
    assert largest_difference(by_hand, moon[0][0].weights) < 1e-6 and largest_difference(kept[0], kept[1]) > 1e-3


def test_mu_0_is_fedavg(plain):
    found = played(build_round(embedded.task(), Moon(learning_rate=RATE, moon_mu=0.0)), DATA)
    assert largest_difference(found[1][0].weights, plain[1][0].weights) < 1e-6


def test_the_second_rounds_step_by_hand(round_):
    """One client, one batch: the gradient of the whole loss by plain TensorFlow."""
    batch = next(iter(dataset(0)))
    one = tf.data.Dataset.from_tensors(batch)
    (first, kept), (second, _) = played(round_, [one, one.map(lambda x, y: (-x, y))], 2)
    task, ends = embedded.task(), []
    model, embedding = task.model, embedding_of(task.model)
    for place, (images, labels) in enumerate((batch, (-batch[0], batch[1]))):
        others = []
        for weights in (first.weights, kept[place]):
            model.set_weights([np.asarray(value) for value in weights])
            others.append(embedding(images, training=False))
        model.set_weights([np.asarray(value) for value in first.weights])
        with tf.GradientTape() as tape:
            vectors = tf.nn.relu(model.layers[1](model.layers[0](images), training=True))
            loss = task.loss(labels, model.layers[-1](vectors)) + 5.0 * contrast(vectors, *others, 0.5)
            loss = tf.reduce_mean(loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        ends.append([v.numpy() - RATE * g.numpy() for v, g in zip(model.trainable_variables, gradients)])
    by_hand = [(a + b) / 2 for a, b in zip(*ends)]
    assert largest_difference(by_hand, round_.layout.trained(second.weights)) < 1e-5
