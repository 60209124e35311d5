"""Losses and grains by hand, the choice of a round, and a run that has none to choose."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tffapps.data import images, pipeline
from tffapps.errors import RunStopped
from tffapps.evaluation import segmentation
from tffapps.evaluation.evaluator import Trained
from tffapps.fedtransfer import data
from tffapps.fedtransfer.evaluator import GrainEvaluator, ScoringHere

SIZE = (64, 64)
SPEC = (tf.TensorSpec((None, *SIZE, 1), tf.float32), tf.TensorSpec((None, *SIZE), tf.int32))


@pytest.fixture
def scoring():
    """Of a network with two weights: dark pixels are boundary, or light ones."""
    picture = tf.keras.Input((*SIZE, 1))
    logits = tf.keras.layers.Conv2D(2, 1)(picture)
    model = tf.keras.Model(picture, tf.keras.layers.Softmax()(logits))

    def in_order(rows):
        return pipeline.of_files(
            list(rows.path), list(rows["mask"]), images.Reader(SIZE, 1), batch=3, shuffle=False,
            read_label=images.MaskReader(SIZE),
        )  # fmt: skip

    def loss(labels, probabilities):
        return tf.reduce_mean(tf.cast(labels, tf.float32) * probabilities[..., 1], axis=[1, 2])

    return ScoringHere(types.SimpleNamespace(model=model, in_order=in_order, loss=loss, spec=SPEC, chooses=False))


def below(limit):
    """Weights for which pixels darker than `limit` are boundary."""
    return [np.array([[[[0.0, -100.0]]]], np.float32), np.array([0.0, 100 * limit], np.float32)]


def test_every_test_tile_is_a_row(scoring, tiles):
    evaluator = GrainEvaluator("run", scoring, tiles, tiles.clients)
    found = evaluator.predicted(Trained(below(0.5), None, number=1, last=True, kept=lambda position: None))
    assert set(found.part) == {"test"} and found.image.is_unique
    for client in tiles.clients:
        rows = tiles.part("test", client)
        expected = [
            segmentation.scores(mask.astype(bool), image[..., 0] < 127.5)
            for mask, image in zip(data.masks_of(rows), data.images_of(rows, 1))
        ]
        own = found[found.client == client]
        for metric in ("map", "mvi", "ari"):
            assert own[metric].tolist() == pytest.approx([one[metric] for one in expected])
        assert own.subject.nunique() == rows.subject.nunique() and not set(own.subject) & set(rows.subject)


def test_the_mean_loss_over_validation_tiles(scoring, tiles):
    found = scoring.losses(below(0.5), tiles, ["iron"], last=False)
    rows = tiles.part("val", "iron")
    dark = data.images_of(rows, 1)[..., 0] < 127.5
    assert list(found) == ["iron"]
    assert found["iron"] == pytest.approx(np.mean(dark & data.masks_of(rows).astype(bool)), abs=1e-3)


class Given:
    """Losses and grains that are known."""

    def losses(self, weights, tiles, clients, *, last):
        return {client: float(weights[0]) + number for number, client in enumerate(clients)}

    def grains(self, weights, tiles):
        return {"a": np.full((1, 6), float(weights[0])), "b": np.full((3, 6), 0.0)}


def test_a_row_has_the_mean_of_the_clients_losses():
    evaluator = GrainEvaluator("run", Given(), None, ["a", "b"])
    trained = Trained([np.array(3.0)], None, number=1, last=False, kept=lambda position: None)
    assert evaluator.evaluate(trained) == {
        "validation_loss": 3.5, "validation_loss_a": 3.0, "validation_loss_b": 4.0,
    }  # fmt: skip
    assert evaluator.headline == evaluator.chosen_by == "validation_loss"


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_no_round_to_choose(loss):
    evaluator = GrainEvaluator("fedavg-seed0", Given(), None, ["a"])
    with pytest.raises(RunStopped, match=r"fedavg-seed0: no round has a finite validation loss; lower --learning-rate"):
        evaluator.summary({"round": 2, "validation_loss": loss}, list)
