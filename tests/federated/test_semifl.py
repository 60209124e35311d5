"""SemiFL and (FL)²: their losses, thresholds and weights by hand, and what they reduce to."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fl2 import FL2, adaptive_offsets, divergence
from tffapps.federated.round import build_round
from tffapps.federated.semifl import SemiFL, beta, mixed_loss
from tffapps.federated.task import Task, cross_entropy

from .few_labelled import NONE, SPEC, START, STRONG, WEAK, data, network, played, softmax, task

RATE = 0.5


def test_the_mixed_loss_by_hand():
    outputs = tf.constant([[0.5, 0.5], [0.2, 0.8]])
    found = mixed_loss(cross_entropy, tf.constant([0, 0]), tf.constant([1, 1]), outputs, tf.constant(0.75))
    by_hand = [-np.log(0.5), -0.75 * np.log(0.2) - 0.25 * np.log(0.8)]
    assert found.numpy() == pytest.approx(by_hand, abs=1e-6)


def test_shares_are_of_a_beta_and_repeat():
    seed = tf.constant([3, 4])
    drawn = np.array([beta(0.75, seed, tf.constant(step)).numpy() for step in range(400)])
    assert drawn[7] == beta(0.75, seed, tf.constant(7)).numpy() and len(set(drawn)) > 390
    assert drawn.mean() == pytest.approx(0.5, abs=0.06) and drawn.var() == pytest.approx(0.1, abs=0.02)  # 1 / (4 · 2.5)


def test_a_step_of_semifl_by_hand():
    """One image of two is in the fix set; it is mixed with the first of the others, whose label is 1."""
    kernel, bias = (value.astype(np.float64) for value in START)
    share = float(beta(0.75, tf.constant([1, 2]), tf.constant(0)))
    mixed = share * WEAK[:1] + (1 - share) * WEAK[1:]
    wanted = share * np.eye(2)[[0]] + (1 - share) * np.eye(2)[[1]]
    fix, mix = softmax(STRONG[:1] @ kernel + bias) - np.eye(2)[[0]], softmax(mixed @ kernel + bias) - wanted
    step = STRONG[:1].T @ fix + mixed.T @ mix
    found = played(SemiFL(learning_rate=RATE), data(labelled=NONE, steps=1))
    assert largest_difference([kernel - RATE * step], found.state.weights[:1]) < 1e-6
    report = found.reports["0"]
    assert (report["unlabelled"], report["confident"], report["confident_0"], report["examples"]) == (2, 1, 1, 1)


def test_semifl_without_mixing_and_threshold_is_fedavg_on_its_labels():
    labelled = tf.data.Dataset.from_tensors((STRONG, np.array([0, 1], np.int32))).repeat(2)
    plain = played(FedAvg(learning_rate=RATE), labelled, given=Task.of_batches(network(), SPEC, cross_entropy))
    found = played(SemiFL(learning_rate=RATE, semifl_mix=0.0, semifl_tau=0.0), data(labelled=NONE))
    assert largest_difference(found.state.weights, plain.state.weights) < 1e-7
    assert found.loss == pytest.approx(plain.loss)


@pytest.mark.parametrize("method", [SemiFL(semifl_tau=1.0), FL2(warmup_rounds=1.0)])
def test_who_is_sure_of_nothing_takes_part_unchanged(method):
    found = played(method, data(labelled=NONE))
    assert largest_difference(found.state.weights, START) == 0 and found.examples == 1


def test_fl2s_threshold_by_hand():
    """Probabilities 0.953 and 0.525: the mean is 0.739; the mean prediction is (0.714, 0.286), the second class's
    threshold 0.296, so that both images pass, and with weights 1 − 0.739 the client counts."""
    found = played(FL2(learning_rate=RATE), data(labelled=NONE)).reports["0"]
    assert (found["confident_0"], found["confident_1"]) == (1, 1)
    weak = np.array([[3.0, 0.0], [0.4, 0.0]], np.float32)  # both of class 0: 0.953 and 0.599, mean 0.776
    assert played(FL2(learning_rate=RATE), data(labelled=NONE, weak=weak)).reports["0"]["confident"] == 1
    assert FL2().weight(tf.constant(0.739)).numpy() == pytest.approx(0.261)
    assert FL2(fl2_status=0.0).weight(tf.constant(0.739)).numpy() == 1


def test_fl2s_clients_count_by_what_they_have_not_learned():
    """Two clients with other numbers of images: their models' mean by 1 − t, not by examples."""
    sure = np.array([[5.0, 0.0], [0.0, 5.0], [6.0, 0.0]], np.float32)
    strong = np.array([[0.1, 1.0], [1.0, 0.3], [0.2, 0.9]], np.float32)
    first, second = data(labelled=NONE), data(labelled=NONE, weak=sure, strong=strong)
    ends = [played(FL2(learning_rate=RATE), one).state.weights for one in (first, second)]
    known = [softmax(views @ START[0]).max(axis=1).mean() for views in (WEAK, sure)]
    both = played(FL2(learning_rate=RATE), first, second).state.weights
    by_hand = [np.average(pair, axis=0, weights=1 - np.array(known)) for pair in zip(*ends)]
    assert largest_difference(both, by_hand) < 1e-6
    assert largest_difference(both, [np.average(pair, axis=0, weights=[2, 3]) for pair in zip(*ends)]) > 1e-3


def test_fl2s_offsets_and_divergence_by_hand():
    """T = (2.01, 1) for a kernel of 2 and a bias: ‖Tg‖ of g = (3, 4) is √(6.03² + 4²)."""
    variables = [tf.Variable([[2.0]]), tf.Variable([5.0])]
    found = adaptive_offsets(0.1, [tf.constant([[3.0]]), tf.constant([4.0])], variables)
    length = np.hypot(6.03, 4.0)
    assert [float(np.ravel(one)[0]) for one in found] == pytest.approx([0.1 * 2.01 * 6.03 / length, 0.4 / length])
    assert divergence(tf.constant([[0.5, 0.5]]), tf.constant([[0.25, 0.75]])).numpy() == pytest.approx(
        [0.5 * np.log(2) + 0.5 * np.log(2 / 3)], abs=1e-6
    )


def test_fl2s_consistency_is_of_sure_images_alone():
    """With no image of 0.95 or more there is none to be consistent about: as with rho 0."""
    plain = played(FL2(learning_rate=RATE, fl2_rho=0.0), data(labelled=NONE)).state.weights
    nobody = played(FL2(learning_rate=RATE, fl2_high=0.99), data(labelled=NONE)).state.weights
    assert largest_difference(plain, nobody) < 1e-7
    assert largest_difference(plain, played(FL2(learning_rate=RATE), data(labelled=NONE)).state.weights) > 1e-5


def test_fl2_refuses_dp():
    with pytest.raises(UserError, match="not with fl2, whose clients would all count the same"):
        build_round(task(), FL2(), Aggregation(aggregator="dp"))
