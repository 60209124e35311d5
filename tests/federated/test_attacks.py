"""What attackers do, by hand: to an update, in a round; to labels and images; who they are. Which aggregators hold."""

import numpy as np
import pytest
import tensorflow as tf

from tests.federated.quadratics import START, UNEQUAL, next_by_hand, task
from tffapps.engine import open_engine
from tffapps.federated import attacks
from tffapps.federated.aggregation import AGAINST_BAD, Aggregation
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.unequal import ClassBalance, WithClassCounts

RATE = 0.1


@pytest.fixture(scope="module")
def after_a_round():
    """w after a round of FedAvg in which the clients' updates are multiplied by these numbers."""
    round_ = build_round(attacks.attacked_task(task()), attacks.attacked_method(FedAvg(learning_rate=RATE)))

    def play(*factors):
        data = [attacks.with_factor(each.batches(), factor) for each, factor in zip(UNEQUAL, factors)]
        with open_engine("in-process"):
            result = round_.next(round_.start([np.array([[START]], np.float32)]), [0, 1, 2], data)
        return float(result.state.weights[0][0, 0])

    return play


def updates_by_hand():
    return [(1 - (1 - RATE * each.curvature) ** each.steps) * (each.lowest - START) for each in UNEQUAL]


@pytest.mark.parametrize("factor", [-10.0, 100.0, 0.0], ids=["sign-flip", "scaling", "free-rider"])
def test_an_attackers_update_by_hand(factor, after_a_round):
    """The second of the three attacks; they weigh 8, 16 and 8 examples."""
    first, second, third = updates_by_hand()
    expected = START + (8 * first + 16 * factor * second + 8 * third) / 32
    assert after_a_round(1.0, factor, 1.0) == pytest.approx(expected, rel=1e-5)


def test_without_an_attacker_it_is_the_method_itself(after_a_round):
    assert after_a_round(1.0, 1.0, 1.0) == pytest.approx(next_by_hand(UNEQUAL, RATE, START), abs=1e-5)


def test_the_method_keeps_its_settings_and_the_round_is_the_same_for_all_attacks():
    one, other = (attacks.attacked_method(FedAvg(learning_rate=0.3, momentum=0.5)) for _ in range(2))
    assert one == other and hash(one) == hash(other) and one.name == "fedavg" and one.momentum == 0.5
    assert one != FedAvg(learning_rate=0.3, momentum=0.5)


def test_class_counts_stay_outermost(tiny_task):
    of_counts = ClassBalance(loss="fedlc").task(tiny_task)
    spec = attacks.attacked_task(of_counts).client_spec
    data = attacks.with_factor(WithClassCounts("batches", "counts"), -2.0)
    assert isinstance(spec, WithClassCounts) and isinstance(spec.training, attacks.WithFactor)
    assert data.counts == "counts" and data.training.training == "batches" and float(data.training.factor) == -2


def test_labels_by_hand():
    assert attacks.next_labels([0, 1, 2, 2], 3).tolist() == [1, 2, 0, 0]


def test_images_to_patch():
    codes = [0, 1, 0, 2, 1, 1, 2, 0]  # the target is 0: five are of other classes
    places = attacks.to_patch(codes, 0, 0.5, seed=3, position=1)
    assert len(places) == 3 and set(places) < {1, 3, 4, 5, 6} and places.tolist() == sorted(places)
    assert attacks.to_patch(codes, 0, 1.0, seed=3, position=1).tolist() == [1, 3, 4, 5, 6]
    drawn = {tuple(attacks.to_patch(codes, 0, 0.5, seed, position)) for seed in range(3) for position in range(3)}
    assert len(drawn) > 1 and not len(attacks.to_patch([0, 0], 0, 1.0, 0, 0))


def test_who_attacks_is_the_seeds_choice():
    found = [attacks.chosen(seed, 10, 2) for seed in range(20)]
    assert found == [attacks.chosen(seed, 10, 2) for seed in range(20)]
    assert all(len(set(each)) == 2 and set(each) <= set(range(10)) for each in found)
    assert set().union(*found) == set(range(10))


@pytest.mark.parametrize("factor", [-10.0, 100.0], ids=["sign-flip", "scaling"])
@pytest.mark.parametrize("name", ["mean", "robust", *AGAINST_BAD])
def test_two_attackers_of_ten(name, factor):
    """Ten parabolas of curvature 1 around (1, −1), a round goes half of the way; the model begins at (8, 8)."""
    rng = np.random.default_rng(0)
    lowest, weights = rng.normal([1.0, -1.0], 0.1, (10, 2)), tf.ones(10)
    model, state = np.array([8.0, 8.0]), tf.constant(0.0)
    bad = attacks.chosen(0, 10, 2)
    # mean is TFF's own: what it gives is said here, as the test of a round above has it by hand
    rule = None if name == "mean" else Aggregation(name, byzantine=2).factory(10).rule
    for _ in range(12):
        updates = (lowest - model) / 2
        updates[bad] = attacks.multiplied(0.0, updates[bad], factor)
        if rule is None:
            step = updates.mean(axis=0)
        else:
            step, state = rule(tf.constant(updates, tf.float32), weights, state)
        model = model + np.asarray(step)
    error = np.abs(model - [1.0, -1.0]).max()
    if (name, factor) == ("robust", -10.0):
        # Not long enough to be left out, and clipped like the honest: it neither arrives nor runs away.
        assert 1 < error < 10
    else:
        assert error > 10 if name == "mean" else error < 1
