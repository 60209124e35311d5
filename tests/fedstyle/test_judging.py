"""How models are judged, on two-dimensional pictures whose embeddings are known."""

import math
import types

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tffapps.evaluation.evaluator import Evaluator
from tffapps.federated.embeddings import Means
from tffapps.fedstyle.data import GIVEN, SINGLE, Federation, Pool
from tffapps.fedstyle.judging import Judge

PICTURES = {"0": (0.0, 0.0), "1": (1.0, 0.0), "2": (0.0, 3.0), "3": (0.0, 2.0)}
TABLE = pd.DataFrame(
    {"path": list(PICTURES), "label": ["p1", "p2", "p3", "p2"], "client": ["a", "a", "b", "b"], "split": "test"}
)
SCALES = ([1.0, 1.0], [1.0, 0.1])  # of two clients' embeddings


class Inputs:
    """A network whose embedding is the picture, each side times a weight."""

    def __init__(self) -> None:
        layers = tf.keras.layers
        self.model = tf.keras.Sequential(
            [layers.Input(2), layers.Dense(2, use_bias=False), layers.Dense(3, activation="softmax")]
        )
        self.spec = tf.TensorSpec((None, 2)), tf.TensorSpec((None,), tf.int32)

    def weights(self, scale):
        head = np.eye(2, 3, dtype=np.float32)
        return [np.diag(scale).astype(np.float32), head, np.zeros(3, np.float32)]

    def batches(self, paths, codes, *, batch, shuffle):
        assert not shuffle
        vectors = np.array([PICTURES[path] for path in paths], np.float32)
        return tf.data.Dataset.from_tensor_slices((vectors, codes)).batch(batch)


@pytest.fixture
def inputs():
    return Inputs()


@pytest.fixture
def judge(inputs):
    return Judge(types.SimpleNamespace(sites={}), inputs, Federation(SINGLE, TABLE), 3)


def test_a_global_model(judge, inputs):
    """The larger side wins, the first of equals: p1, p1, p2, p2 of p1, p2, p3, p2."""
    found = judge.of_model(inputs.weights([1, 1]), last=True)
    assert found == {"accuracy": pytest.approx(0.5), "macro_f1": pytest.approx((2 / 3 + 1 / 2 + 0) / 3)}


def test_prototypes_and_every_clients_own_model(judge, inputs):
    """All but the last picture for the first client; the second sees the last two near the origin, and p1 there."""
    prototypes = Means(np.array([[0, 0], [1, 0], [0, 3]], np.float32), np.ones(3, np.float32))
    models = [inputs.weights(scale) for scale in SCALES]
    assert judge.of_prototypes(prototypes, models[:1], last=True)["accuracy"] == pytest.approx(3 / 4)
    assert judge.of_prototypes(prototypes, models[1:], last=True)["accuracy"] == pytest.approx(2 / 4)
    assert judge.of_prototypes(prototypes, models, last=True)["accuracy"] == pytest.approx(5 / 8)
    without = prototypes._replace(there=np.array([1, 0, 1], np.float32))
    assert judge.of_prototypes(without, models[:1], last=True)["accuracy"] == pytest.approx(2 / 4)


def test_a_round_in_which_a_site_is_away_has_no_scores(judge, inputs, monkeypatch):
    monkeypatch.setattr(Evaluator, "answers", lambda self, weights, *, last: None)
    none = Means(np.zeros((3, 2), np.float32), np.zeros(3, np.float32))
    weights = inputs.weights([1, 1])
    for found in (judge.of_model(weights, last=False), judge.of_prototypes(none, [weights], last=False)):
        assert list(found) == ["accuracy", "macro_f1"] and all(map(math.isnan, found.values()))


def test_clients_are_one_artist_each_or_as_the_data_has_them():
    table = TABLE.assign(split="train")
    single, given = (Pool("x", table, "key", ("png",), given=given).federation(0) for given in (False, True))
    assert (single.name, single.dealt) == (SINGLE, "one artist each")
    assert (given.name, given.dealt) == (GIVEN, "as given") and given.clients == ["a", "b"]
