"""PLFL+: each part by hand, and PLFL when every part is off."""

import dataclasses

import numpy as np
import tensorflow as tf

from tests.conftest import largest_difference
from tests.federated.test_pseudo_label import IMAGES, SPEC, START, data, network
from tffapps.engine import open_engine
from tffapps.federated.anchored import GoldData, Labelled
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData, predict
from tffapps.federated.pseudo_label_plus import PseudoLabelPlus
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

OFF = PseudoLabelPlus(
    server_epochs=0, keep=0.0, rate_share=1.0, average_from=0, train_share=1.0, plus_train_share=1.0, learning_rate=0.5
)
PROBABILITIES = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.45, 0.55], [0.3, 0.7]], np.float32)
PRIOR = np.array([0.5, 0.5], np.float32)
GOLD = (IMAGES, np.array([0, 0, 1], np.int32))


def outcome(method, server_data=None):
    task = Task(network(), UnlabelledData.spec(SPEC), cross_entropy, GoldData.spec(SPEC) if server_data else None)
    round_ = build_round(task, method)
    with open_engine("in-process"):
        return play(round_, round_.start(START), [Client("a", lambda _: data([0, 1, 1]))], 1, 1, server_data)


def test_with_every_part_off_it_is_plfl():
    plain = PseudoLabel(train_share=1.0, learning_rate=0.5)
    found, expected = outcome(OFF), outcome(plain)
    assert largest_difference(found.state.weights, expected.state.weights) == 0
    assert found.reports == expected.reports


def test_the_surest_of_each_class_in_golds_shares():
    method = dataclasses.replace(OFF, keep=0.67)  # 0.67 · 0.5 · 6 images: two of each class
    kept = method.choose(tf.constant(PROBABILITIES), tf.constant(PRIOR)).numpy()
    assert kept.tolist() == [True, True, False, False, True, True]
    few = method.choose(tf.constant(PROBABILITIES), tf.constant([0.25, 0.75])).numpy()  # one of the first class
    assert few.tolist() == [True, False, False, False, True, True]


def test_temperature_and_floor():
    """A square root of the odds; then none is sure enough but the first and, of the other class, nothing."""
    method = dataclasses.replace(OFF, temperature=2.0, keep=1.0, floor=0.7)
    cooler = method.adjust(tf.constant(PROBABILITIES), tf.constant(PRIOR)).numpy()
    odds = PROBABILITIES[:, 0] / PROBABILITIES[:, 1]
    np.testing.assert_allclose(cooler[:, 0] / cooler[:, 1], np.sqrt(odds), rtol=1e-5)
    assert method.choose(tf.constant(cooler), tf.constant(PRIOR)).numpy().tolist() == [True] + [False] * 5
    none = np.zeros((1, 2), np.float32)
    assert (method.adjust(tf.constant(none), tf.constant(PRIOR)).numpy() == 0).all()


def test_averaged_weights_label():
    """In the first round they are the weights; then they lag behind, and labels are theirs."""
    lagging = dataclasses.replace(OFF, label_decay=0.75, threshold=0.0)
    task = Task(network(), UnlabelledData.spec(SPEC), cross_entropy)
    round_ = build_round(task, lagging)
    start = round_.start(START)
    clients = [Client("a", lambda _: data([0, 1, 1]))]
    with open_engine("in-process"):
        first = play(round_, start, clients, 1, 1)
        turned = first.state._replace(weights=[-value for value in first.state.weights])
        labelled = play(round_, turned, clients, 2, 1).reports["a"]
    plain = outcome(dataclasses.replace(OFF, threshold=0.0))
    assert largest_difference(first.state.weights, plain.state.weights) == 0
    expected = [0.75 * old + 0.25 * new for old, new in zip(START, first.state.weights)]
    assert largest_difference(first.state.memory, expected) < 1e-6
    assert [labelled[f"kept_{code}"] for code in (0, 1)] == [plain.reports["a"][f"kept_{code}"] for code in (0, 1)]


def test_alignment_moves_the_mean_towards_golds_shares():
    aligned = dataclasses.replace(OFF, alignment=1.0).adjust(tf.constant(PROBABILITIES), tf.constant(PRIOR)).numpy()
    mean = PROBABILITIES.mean(axis=0)
    by_hand = PROBABILITIES / mean
    np.testing.assert_allclose(aligned, by_hand / by_hand.sum(axis=1, keepdims=True), atol=1e-6)
    assert abs(aligned.mean(axis=0)[0] - 0.5) < abs(mean[0] - 0.5)
    none = OFF.adjust(tf.constant(PROBABILITIES), tf.constant(PRIOR))
    np.testing.assert_array_equal(none.numpy(), PROBABILITIES)


def test_weights_and_soft_labels_in_the_loss():
    task = Task(network(), UnlabelledData.spec(SPEC), cross_entropy)
    rows, outputs = tf.constant([0, 5]), tf.constant([[0.5, 0.5], [0.2, 0.8]])
    prior = tf.constant([0.8, 0.2])
    plain = OFF.loss(task, tf.constant(PROBABILITIES), prior)(rows, outputs)
    np.testing.assert_allclose(plain, -np.log([0.5, 0.8]), atol=1e-5)
    weighted = dataclasses.replace(OFF, class_weights=1.0).loss(task, tf.constant(PROBABILITIES), prior)(rows, outputs)
    # 1 / share, scaled to a mean of 1 over the gold images: (1.25, 5) / 2
    np.testing.assert_allclose(weighted, -np.log([0.5, 0.8]) * [0.625, 2.5], atol=1e-5)
    soft = dataclasses.replace(OFF, soft_labels=True).loss(task, tf.constant(PROBABILITIES), prior)(rows, outputs)
    by_hand = [-np.log(0.5), -(0.3 * np.log(0.2) + 0.7 * np.log(0.8))]
    np.testing.assert_allclose(soft, by_hand, atol=1e-5)


def test_the_server_step_by_hand():
    gold = GoldData(tf.data.Dataset.from_tensors(GOLD), np.int32(1), PRIOR)
    method = dataclasses.replace(OFF, server_epochs=1, threshold=0.7)
    before = outcome(OFF).state.weights
    after = outcome(method, lambda number: gold).state.weights
    scores = np.exp(IMAGES @ before[0] + before[1])
    error = (scores / scores.sum(axis=1, keepdims=True) - np.eye(2)[GOLD[1]]) / 3
    by_hand = [before[0] - 0.5 * IMAGES.T @ error, before[1] - 0.5 * error.sum(axis=0)]
    assert largest_difference(after, by_hand) < 1e-6


def test_a_smaller_step():
    full, quarter = outcome(OFF), outcome(dataclasses.replace(OFF, rate_share=0.25))
    moved = [
        (np.asarray(a) - b, np.asarray(c) - b) for a, b, c in zip(full.state.weights, START, quarter.state.weights)
    ]
    for whole, part in moved:  # one step of plain gradient descent is proportional to the rate
        np.testing.assert_allclose(part, 0.25 * whole, atol=1e-6)


def test_predictions_of_several_views_are_averaged():
    views = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]], np.float32)
    rows = np.array([0, 0, 2], np.int32)  # row 1 never comes
    model = network()
    model.set_weights(START)
    found = predict(model, tf.data.Dataset.from_tensors((views, rows)), tf.constant(3)).numpy()
    each = np.exp(views) / np.exp(views).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, [each[:2].mean(axis=0), [0, 0], [0.5, 0.5]], atol=1e-6)


def test_with_labels_it_is_fedavg_and_its_server_step():
    known = GoldData(tf.data.Dataset.from_tensors(GOLD), np.int32(1), PRIOR)
    task = Task(network(), GoldData.spec(SPEC), cross_entropy, GoldData.spec(SPEC))
    plain = Task(network(), tf.data.DatasetSpec(SPEC), cross_entropy)
    off = {"server_epochs": 0, "average_from": 0, "learning_rate": 0.5}

    def after(task, method, data, server_data=None):
        round_ = build_round(task, method)
        with open_engine("in-process"):
            client = [Client("a", lambda _: data)]
            return play(round_, round_.start(START), client, 1, 1, server_data).state.weights

    half = after(plain, FedAvg(learning_rate=0.25), known.batches)
    found = after(dataclasses.replace(task, server_spec=None), Labelled(rate_share=0.5, **off), known)
    assert largest_difference(found, half) < 1e-7
    twice = after(plain, FedAvg(learning_rate=0.5), known.batches.repeat(2))
    found = after(task, Labelled(rate_share=1.0, **{**off, "server_epochs": 1}), known, lambda number: known)
    assert largest_difference(found, twice) < 1e-6
