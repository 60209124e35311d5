"""Two numbers an image, two classes, a layer that ends in a softmax: data for methods with few labels."""

import functools

import numpy as np
import tensorflow as tf

from tffapps.engine import open_engine
from tffapps.federated.anchored import GoldData
from tffapps.federated.cohort import Client, play
from tffapps.federated.few_labels import TwoViewData
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

SPEC = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
START = [np.eye(2, dtype=np.float32), np.zeros(2, np.float32)]
LABELLED = (np.array([[1.0, 0.0], [0.0, 1.0]], np.float32), np.array([1, 1], np.int32))
WEAK = np.array([[3.0, 0.0], [0.0, 0.1]], np.float32)  # sure of class 0 (0.95), not sure (0.52)
STRONG = np.array([[0.5, 1.0], [1.0, 1.0]], np.float32)
NONE = (np.zeros([0, 2], np.float32), np.zeros([0], np.int32))


def network() -> tf.keras.Model:
    return tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2, "softmax")])


def data(*, labelled=LABELLED, steps=2, number=1, weak=WEAK, strong=STRONG, prior=(0.5, 0.5)) -> TwoViewData:
    """Every step sees the same images; `once` and `others` are the weak views."""
    rows = np.arange(len(weak), dtype=np.int32)
    return TwoViewData(
        tf.data.Dataset.from_tensors((weak, rows)),
        tf.data.Dataset.from_tensors(labelled).repeat(steps),
        tf.data.Dataset.from_tensors((weak, strong, rows)).repeat(steps),
        tf.data.Dataset.from_tensors((weak[::-1], rows[::-1])).repeat(steps),
        np.int32(len(weak)), np.int32(len(weak)), np.int32(steps), np.int32(number),
        np.array(prior, np.float32), np.array([1, 2], np.int32),
    )  # fmt: skip


def task(server: bool = False) -> Task:
    return Task(network(), TwoViewData.spec(SPEC), cross_entropy, GoldData.spec(SPEC) if server else None)


def gold() -> GoldData:
    return GoldData(tf.data.Dataset.from_tensors(LABELLED), np.int32(1), np.array([0.5, 0.5], np.float32))


@functools.cache
def round_of(method, server: bool = False):
    return build_round(task(server), method)


def played(method, *clients: TwoViewData, server: bool = False, given: Task | None = None):
    """The outcome of one round from START."""
    round_ = round_of(method, server) if given is None else build_round(given, method)
    members = [Client(f"{place}", lambda _, one=one: one) for place, one in enumerate(clients)]
    with open_engine("in-process"):
        return play(round_, round_.start(START), members, 1, len(members), (lambda _: gold()) if server else None)


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
