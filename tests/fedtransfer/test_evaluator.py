import numpy as np
import pytest
import tensorflow as tf

from tffapps.data import images, pipeline
from tffapps.evaluation import segmentation
from tffapps.fedtransfer import data
from tffapps.fedtransfer.judge import Judge

SIZE = (64, 64)
SPEC = (tf.TensorSpec((None, *SIZE, 1), tf.float32), tf.TensorSpec((None, *SIZE), tf.int32))


@pytest.fixture
def judge():
    """Of a network with two weights: dark pixels are boundary, or light ones."""
    picture = tf.keras.Input((*SIZE, 1))
    logits = tf.keras.layers.Conv2D(2, 1)(picture)
    model = tf.keras.Model(picture, tf.keras.layers.Softmax()(logits))

    def batches(rows):
        return pipeline.of_files(
            list(rows.path), list(rows["mask"]), images.Reader(SIZE, 1), batch=3, shuffle=False,
            read_label=images.MaskReader(SIZE),
        )  # fmt: skip

    def loss(labels, probabilities):
        return tf.reduce_mean(tf.cast(labels, tf.float32) * probabilities[..., 1], axis=[1, 2])

    return Judge(model, batches, loss, SPEC)


def below(limit):
    """Weights for which pixels darker than `limit` are boundary."""
    return [np.array([[[[0.0, -100.0]]]], np.float32), np.array([0.0, 100 * limit], np.float32)]


def test_grains_on_every_test_set(judge, pool):
    found = judge.test(below(0.5), pool)
    assert list(found) == ["austenite", "iron", "global"]
    single = []
    for client in pool.clients:
        tiles = pool.of("test", client)
        expected = [
            segmentation.scores(mask.astype(bool), image[..., 0] < 127.5)
            for mask, image in zip(data.masks_of(tiles), data.images_of(tiles, 1))
        ]
        single += expected
        assert found[client] == pytest.approx(
            {metric: np.mean([one[metric] for one in expected]) for metric in ("map", "mvi", "ari")}
        )
    assert found["global"]["ari"] == pytest.approx(np.mean([one["ari"] for one in single]))


def test_the_mean_loss_over_validation_tiles(judge, pool):
    found = judge.validation_losses(below(0.5), pool, ["iron"])
    tiles = pool.of("val", "iron")
    dark = data.images_of(tiles, 1)[..., 0] < 127.5
    assert list(found) == ["iron"]
    assert found["iron"] == pytest.approx(np.mean(dark & data.masks_of(tiles).astype(bool)), abs=1e-3)
