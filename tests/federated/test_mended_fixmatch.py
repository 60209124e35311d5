"""FixMatch mended, FlexMatch, FreeMatch: neutral settings are FixMatch, and what each part changes."""

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tffapps.federated.fixmatch import FixMatch, PartlyLabelledData
from tffapps.federated.flexmatch import FlexMatch
from tffapps.federated.freematch import FreeMatch
from tffapps.federated.mended_fixmatch import MendedFixMatch
from tffapps.federated.task import Task, cross_entropy

from .few_labelled import LABELLED, NONE, SPEC, START, STRONG, WEAK, data, network, played, softmax

RATE = 0.5


@pytest.fixture(scope="module")
def published():
    """FixMatch as it is, on the same images."""
    given = PartlyLabelledData(
        tf.data.Dataset.from_tensors(LABELLED).repeat(2), tf.data.Dataset.from_tensors((WEAK, STRONG)).repeat(),
        np.int32(2),
    )  # fmt: skip
    task = Task(network(), PartlyLabelledData.spec(SPEC), cross_entropy)
    return played(FixMatch(learning_rate=RATE), given, given=task)


@pytest.fixture(scope="module")
def neutral():
    return played(MendedFixMatch(learning_rate=RATE), data())


def test_neutral_settings_are_fixmatch(published, neutral):
    assert largest_difference(neutral.state.weights, published.state.weights) == 0
    ours, theirs = neutral.reports["0"], published.reports["0"]
    assert {name: ours[name] for name in theirs} == theirs
    assert ours["confident_0"] == ours["confident"] == 2 and ours["confident_1"] == 0


def test_threshold_and_weight_of_its_own_take_the_place_of_fssfls(neutral):
    own = MendedFixMatch(learning_rate=RATE, tau=0.1, lambda_u=9.0, mended_tau=0.8, mended_weight=1.0)
    assert largest_difference(played(own, data()).state.weights, neutral.state.weights) == 0
    nobody = played(MendedFixMatch(learning_rate=RATE, mended_tau=1.0), data())
    assert nobody.reports["0"]["confident"] == 0


def test_a_warm_up_of_a_round_is_supervised_training():
    supervised = played(MendedFixMatch(learning_rate=RATE, lambda_u=0.0), data())
    warming = played(MendedFixMatch(learning_rate=RATE, warmup_rounds=1.0), data())
    assert largest_difference(warming.state.weights, supervised.state.weights) == 0
    assert warming.reports["0"]["confident"] == 0 and supervised.reports["0"]["confident"] == 2


def test_a_step_with_alignment_by_hand(neutral):
    """One step: the mean prediction moves once by what it keeps, predictions are scaled, the rest is FixMatch's."""
    kernel, bias = (value.astype(np.float64) for value in START)
    predicted = softmax(WEAK @ kernel + bias)
    mean = 0.5 * predicted.mean(axis=0) + 0.5 * predicted.mean(axis=0)
    scaled = predicted * np.array([0.2, 0.8]) / mean
    scaled /= scaled.sum(axis=1, keepdims=True)
    sure, labels = scaled.max(axis=1) >= 0.8, scaled.argmax(axis=1)
    assert sure.tolist() == [False, True] and labels[1] == 1  # the other way round than without
    supervised = (softmax(LABELLED[0] @ kernel + bias) - np.eye(2)[LABELLED[1]]) / 2
    unsupervised = sure[:, None] * (softmax(STRONG @ kernel + bias) - np.eye(2)[labels]) / 2
    step = LABELLED[0].T @ supervised + STRONG.T @ unsupervised
    method = MendedFixMatch(learning_rate=RATE, align=1.0, align_decay=0.5)
    found = played(method, data(steps=1, prior=(0.2, 0.8)))
    assert largest_difference([kernel - RATE * step], found.state.weights[:1]) < 1e-6
    assert found.reports["0"]["confident_1"] == 1


def test_averaged_weights_label(neutral):
    """The first step is the same; after it the average has moved by a hundredth, and labels as the start did."""
    far = {"learning_rate": 4.0, "lambda_u": 0.0}
    plain, averaged = MendedFixMatch(**far), MendedFixMatch(**far, teacher_decay=0.99)
    first = [played(method, data(steps=1)).state.weights for method in (plain, averaged)]
    assert largest_difference(*first) == 0
    # After a large step the network itself is unsure of the first image; the average is not.
    assert played(plain, data()).reports["0"]["confident_0"] == 1
    assert played(averaged, data()).reports["0"]["confident_0"] == 2


def test_flexmatch_believes_what_fixmatch_does_not(neutral):
    """Of two images one is told 0, nobody is sure of the other: class 1 has the threshold 0."""
    found = played(FlexMatch(learning_rate=RATE), data(steps=1)).reports["0"]
    assert (found["confident_0"], found["confident_1"]) == (1, 1) and neutral.reports["0"]["confident_1"] == 0


def test_freematch_has_no_tau():
    """And its fairness term moves the weights."""
    one = played(FreeMatch(learning_rate=RATE, tau=0.99), data())
    unfair = played(FreeMatch(learning_rate=RATE, tau=0.1, fairness=0.0), data())
    assert one.reports["0"]["confident"] == unfair.reports["0"]["confident"] == 4
    assert 1e-5 < largest_difference(one.state.weights, unfair.state.weights) < 0.01


def test_without_labels_here_the_server_trains():
    """A client that looks on sends no update; the server's own step is left."""
    on_looking = played(MendedFixMatch(learning_rate=RATE), data(labelled=NONE, number=0), server=True)
    kernel, bias = START
    error = (softmax(LABELLED[0] @ kernel + bias) - np.eye(2)[LABELLED[1]]) / 2
    assert largest_difference([kernel - RATE * LABELLED[0].T @ error], on_looking.state.weights[:1]) < 1e-6
    assert on_looking.examples == 1 and on_looking.reports["0"]["unlabelled"] == 0
    trained = played(MendedFixMatch(learning_rate=RATE), data(labelled=NONE), server=True)
    assert trained.reports["0"]["confident"] == 2 and trained.reports["0"]["loss"] > 0
    assert largest_difference(trained.state.weights, on_looking.state.weights) > 1e-3
