"""Losses for unequal classes by hand, in a round with two clients' own counts, and drawing classes equally often."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tests.federated.embedded import RATE, START, dataset, task
from tffapps.engine import open_engine
from tffapps.federated import class_losses
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import cross_entropy
from tffapps.federated.unequal import LOSSES, PLAIN, ClassBalance, WithClassCounts, drawn_equally

PROBABILITIES = tf.constant([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
LABELS = tf.constant([2, 1])
COUNTS = tf.constant([80.0, 16.0, 4.0])


def test_focal_by_hand():
    found = class_losses.focal(2.0)(LABELS, PROBABILITIES)
    assert found.numpy() == pytest.approx([-(0.8**2) * math.log(0.2), -(0.2**2) * math.log(0.8)], rel=1e-5)


def test_balanced_by_hand():
    found = class_losses.balanced(cross_entropy)(COUNTS)(LABELS, PROBABILITIES)
    assert found.numpy() == pytest.approx([-100 / 12 * math.log(0.2), -100 / 48 * math.log(0.8)], rel=1e-5)
    # A class that is not there is no class of the client.
    found = class_losses.balanced(cross_entropy)(tf.constant([30.0, 10.0, 0.0]))(LABELS, PROBABILITIES)
    assert found.numpy() == pytest.approx([0, -2 * math.log(0.8)], rel=1e-5)


def test_logit_adjustment_by_hand():
    found = class_losses.logit_adjusted(1.0)(COUNTS)(LABELS, PROBABILITIES)
    first = 0.2 * 0.04 / (0.5 * 0.8 + 0.3 * 0.16 + 0.2 * 0.04)
    second = 0.8 * 0.16 / (0.1 * 0.8 + 0.8 * 0.16 + 0.1 * 0.04)
    assert found.numpy() == pytest.approx([-math.log(first), -math.log(second)], rel=1e-5)


def test_fedlc_by_hand():
    counts = tf.constant([81.0, 16.0, 1.0])  # to the power of −1/4: 1/3, 1/2, 1
    found = class_losses.fedlc(2.0)(counts)(LABELS, PROBABILITIES)
    shifts = [math.exp(-2 / 3), math.exp(-1), math.exp(-2)]
    for value, row, label in zip(found.numpy(), PROBABILITIES.numpy(), LABELS.numpy()):
        shifted = [p * shift for p, shift in zip(row, shifts)]
        assert value == pytest.approx(-math.log(shifted[label] / sum(shifted)), rel=1e-5)
    away = class_losses.fedlc(1.0)(tf.constant([9.0, 9.0, 0.0]))(tf.constant([0, 0]), PROBABILITIES)
    assert away.numpy() == pytest.approx([-math.log(0.5 / 0.8), -math.log(0.1 / 0.9)], rel=1e-4)  # as if it were not


@pytest.mark.parametrize("neutral", [class_losses.logit_adjusted(0.0)(COUNTS), class_losses.focal(0.0)])
def test_neutral_settings_are_cross_entropy(neutral):
    assert neutral(LABELS, PROBABILITIES).numpy() == pytest.approx(cross_entropy(LABELS, PROBABILITIES).numpy())


@pytest.mark.parametrize("labels", [LABELS, tf.constant([0, 0])])
def test_no_loss_and_no_gradient_is_infinite(labels):
    certain = tf.Variable([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    made = [class_losses.focal(2.0), *(of(1.0)(COUNTS) for of in (class_losses.logit_adjusted, class_losses.fedlc))]
    for loss in made:
        with tf.GradientTape() as tape:
            value = loss(labels, certain)
        assert np.isfinite(value).all() and np.isfinite(tape.gradient(value, certain)).all()


def test_two_clients_have_each_its_own_counts():
    """In one round, with a loss that only knows them from their data."""
    round_ = build_round(ClassBalance(loss="balanced").task(task()), FedAvg(learning_rate=RATE))
    batch = next(iter(dataset(0)))
    counts = [tf.constant([1.0, 1.0, 2.0]), tf.constant([2.0, 1.0, 1.0])]
    data = [WithClassCounts(tf.data.Dataset.from_tensors(batch), each) for each in counts]
    with open_engine("in-process"):
        found = [round_.next(round_.start(START), [0], [one]).state.weights for one in data]
    plain = task()
    for each, weights in zip(counts, found):
        plain.model.set_weights(START)
        with tf.GradientTape() as tape:
            shares = tf.gather(4 / (3 * each), batch[1])
            loss = tf.reduce_mean(shares * plain.loss(batch[1], plain.model(batch[0], training=True)))
        variables = plain.model.trainable_variables
        by_hand = [v - RATE * g for v, g in zip(variables, tape.gradient(loss, variables))]
        assert largest_difference(by_hand, round_.layout.trained(weights)) < 1e-5
    assert largest_difference(*found) > 1e-3


def test_which_counts_a_client_is_given():
    own, of_all = np.array([1, 2, 3]), np.array([4, 5, 6])
    given = {loss: ClassBalance(loss=loss).counts_for(own, of_all).tolist() for loss in ("fedlc", "logit-adjusted")}
    assert given == {"fedlc": [1, 2, 3], "logit-adjusted": [4, 5, 6]}
    assert [loss for loss in LOSSES if not ClassBalance(loss=loss).counts_needed] == ["cross-entropy", "focal"]


def test_the_plain_balance_changes_nothing():
    one = task()
    assert PLAIN.task(one) == one


def test_drawn_equally():
    codes = np.repeat([0, 1, 3], [900, 90, 10])
    places = drawn_equally(codes, 3000, seed=1)
    assert np.bincount(codes[places])[[0, 1, 3]] == pytest.approx([1000, 1000, 1000], abs=120)
    assert np.array_equal(places, drawn_equally(codes, 3000, seed=1))
    assert not np.array_equal(places, drawn_equally(codes, 3000, seed=2)) and places.max() < 1000
