"""Weights averaged along a training: by hand, in every kind of loop that there is."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fixmatch import FixMatch, PartlyLabelledData
from tffapps.federated.fl2 import FL2
from tffapps.federated.mended_fixmatch import MendedFixMatch
from tffapps.federated.semifl import SemiFL
from tffapps.federated.task import Task, cross_entropy

from .few_labelled import LABELLED, SPEC, START, STRONG, WEAK, data, network, played

LOOPS = {
    "one": FedAvg(learning_rate=0.5),
    "published": FixMatch(learning_rate=0.5, tau=0.5),
    "mended": MendedFixMatch(learning_rate=0.5, tau=0.5),
    "mixed": SemiFL(learning_rate=0.5, semifl_tau=0.5),
    "consistent": FL2(learning_rate=0.5, flfl_high=0.5),
}


def weights_after(name, steps, decay):
    method = dataclasses.replace(LOOPS[name], average_weights=decay)
    labelled = tf.data.Dataset.from_tensors(LABELLED).repeat(steps)
    if name == "one":
        given = Task(network(), tf.data.DatasetSpec(SPEC), cross_entropy)
        return played(method, labelled, given=given).state.weights
    if name == "published":
        both = PartlyLabelledData(labelled, tf.data.Dataset.from_tensors((WEAK, STRONG)).repeat(), np.int32(steps))
        return played(method, both, given=Task(network(), PartlyLabelledData.spec(SPEC), cross_entropy)).state.weights
    return played(method, data(steps=steps)).state.weights


@pytest.mark.parametrize("name", LOOPS)
def test_the_model_ends_as_the_average(name):
    """d is 1/10 after the first step, 2/11 after the second, and never more than the decay."""
    first, second = (weights_after(name, steps, 0.0) for steps in (1, 2))
    for decay, kept in ((0.99, (1 / 10, 2 / 11)), (0.05, (0.05, 0.05))):
        expected = START
        for share, weights in zip(kept, (first, second)):
            expected = [share * old + (1 - share) * new for old, new in zip(expected, weights)]
        assert largest_difference(weights_after(name, 2, decay), expected) < 1e-6
    assert largest_difference(first, second) > 1e-3
