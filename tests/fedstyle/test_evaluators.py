"""How models are judged, on two-dimensional pictures whose embeddings are known."""

import dataclasses
import math
import types

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from models.embedding import embedding_of
from tffapps.data.pool import Pool
from tffapps.evaluation import evidence, identities, stored
from tffapps.evaluation.evaluator import Trained
from tffapps.evaluation.predictions import TestImages
from tffapps.federated.embeddings import Means
from tffapps.fedstyle import evaluators
from tffapps.fedstyle.data import GIVEN, SINGLE, federation
from tffapps.fedstyle.trials import Feed

PICTURES = {"0": (0.0, 0.0), "1": (1.0, 0.0), "2": (0.0, 3.0), "3": (0.0, 2.0)}
TABLE = pd.DataFrame(
    {"path": list(PICTURES), "label": ["p1", "p2", "p3", "p2"], "client": ["a", "a", "b", "b"], "split": "test"}
)
ARTISTS = ["p1", "p2", "p3"]
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


def pictures(inputs, model, rows=TABLE):
    feed = Feed(inputs, Pool("x", TABLE, ARTISTS, "key"), batch=3)
    return TestImages(types.SimpleNamespace(sites={}), model, inputs.spec, rows, feed.once)


@pytest.fixture
def of_model(inputs):
    return evaluators.of_global_model(pictures(inputs, inputs.model), ARTISTS)


@pytest.fixture
def of_prototypes(inputs):
    embeddings = pictures(inputs, embedding_of(inputs.model))
    return evaluators.PrototypeEvaluator(embeddings, inputs.model, ["a", "b", "c"], ARTISTS)


PROTOTYPES = Means(np.array([[0, 0], [1, 0], [0, 3]], np.float32), np.ones(3, np.float32))


def after(weights=(), prototypes=PROTOTYPES, kept=(), last=True):
    """A federation whose clients have kept these models; those behind them have not taken part."""
    own = dict(enumerate(kept))
    return Trained(list(weights), types.SimpleNamespace(memory=list(prototypes)), 1, last, own.get)


def test_a_global_model(of_model, inputs):
    """The larger side wins, the first of equals: p1, p1, p2, p2 of p1, p2, p3, p2."""
    row = of_model.evaluate(after(inputs.weights([1, 1])))
    losses = [math.log(3), math.log(math.e + 2), math.log(math.e**3 + 2), math.log(math.e**2 + 2) - 2]
    expected = {"accuracy": 0.5, "macro_f1": (2 / 3 + 1 / 2 + 0) / 3, "loss": sum(losses) / 4}
    assert row == pytest.approx(expected)


def test_prototypes_and_every_clients_own_model(of_prototypes, inputs):
    """All but the last picture for the first client; the second sees the last two near the origin, and p1 there."""
    models = [inputs.weights(scale) for scale in SCALES]
    assert of_prototypes.evaluate(after(kept=models[:1]))["accuracy"] == pytest.approx(3 / 4)
    assert of_prototypes.evaluate(after(kept=models[1:]))["accuracy"] == pytest.approx(2 / 4)
    assert of_prototypes.evaluate(after(kept=models))["accuracy"] == pytest.approx(5 / 8)
    without = PROTOTYPES._replace(there=np.array([1, 0, 1], np.float32))
    assert of_prototypes.evaluate(after(kept=models[:1], prototypes=without))["accuracy"] == pytest.approx(2 / 4)


def test_models_that_do_not_leave_their_sites_judge_the_pictures_there(of_prototypes, inputs, monkeypatch):
    """The first client's two by its own model, as above; the others, both wrong, by the second's."""
    encoder = embedding_of(inputs.model)
    own = {name: pictures(inputs, encoder, TABLE[TABLE.client == name]) for name in ("a", "b")} | {"c": None}
    evaluator = dataclasses.replace(of_prototypes, own=own)
    models = [inputs.weights(scale) for scale in SCALES]
    assert evaluator.evaluate(after(kept=models))["accuracy"] == pytest.approx(2 / 4)
    assert evaluator.evaluate(after(models[0], kept=models[:1]))["accuracy"] == pytest.approx(3 / 4)  # b: as it began
    monkeypatch.setattr(identities, "_images", lambda rows: list(rows.path))
    assert evaluator.predicted(after(kept=models)).judge.tolist() == [""] * 4


def test_every_client_is_a_judge_and_certain(of_prototypes, inputs, tmp_path, monkeypatch):
    """Probabilities of 0 and 1 alone are stored and read like others."""
    named = [f"{number}" * 16 for number in range(4)]
    monkeypatch.setattr(identities, "_images", lambda rows: named)
    models = [inputs.weights(scale) for scale in SCALES]
    stored.write(tmp_path, {stored.LAST: of_prototypes.predicted(after(kept=models))})
    found = stored.read_classifier(tmp_path)
    assert found.table.judge.tolist() == ["a"] * 4 + ["b"] * 4 and found.table.image.tolist() == named * 2
    assert found.probabilities.argmax(axis=1).tolist() == [0, 1, 2, 2, 0, 1, 0, 0]
    entry = evidence.classifier_entry({"seed": 0}, tmp_path)
    (row,) = evidence.table([entry], ["seed"], ["accuracy"]).to_dict("records")
    assert row["accuracy"] == pytest.approx(5 / 8) and (row["images"], row["subjects"]) == (4, 4)


def test_a_round_in_which_a_site_is_away_has_no_scores(of_model, of_prototypes, inputs, monkeypatch):
    monkeypatch.setattr(TestImages, "predict", lambda self, weights, *, last: None)
    weights = inputs.weights([1, 1])
    for evaluator in (of_model, of_prototypes):
        row = evaluator.evaluate(after(weights, kept=[weights], last=False))
        assert list(row)[:2] == ["accuracy", "macro_f1"] and all(map(math.isnan, row.values()))


@pytest.mark.parametrize(("given", "name", "dealt"), [(False, SINGLE, "one artist each"), (True, GIVEN, "as given")])
def test_clients_are_one_artist_each_or_as_the_data_has_them(given, name, dealt):
    pool = Pool("x", TABLE.assign(split="train"), ["p1", "p2", "p3"], "key", ("png",), given=given)
    made = federation(pool, 0)
    assert (made.name, made.dealt, made.pool.clients) == (name, dealt, ["a", "b"])
