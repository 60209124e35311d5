from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from models import unet
from models.padding import MirrorTo
from tests.models.grains import grains


def weights_of(width):
    """Counted by hand for one channel, depth 4: 3 × 3 filters and biases, two for each of nine blocks, and the rest."""
    pairs = [(1, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 8), (8, 4), (4, 2), (2, 1)]  # in and out, in widths
    inputs = [1, *(first * width for first, _ in pairs[1:])]
    blocks = sum(9 * before * n * width + 9 * (n * width) ** 2 + 2 * n * width for before, (_, n) in zip(inputs, pairs))
    ups = sum(4 * 2 * n * width * n * width + n * width for n in (8, 4, 2, 1))
    return blocks + ups + 2 * width + 2


def test_the_papers_size():
    assert weights_of(64) == 31_030_658  # what is found for this network elsewhere
    assert unet.build(input_shape=(32, 32, 1), width=3).count_params() == weights_of(3)


@pytest.mark.parametrize("shape", [(16, 16, 1), (17, 40, 3), (3, 5, 1), (400, 400, 1)])
def test_any_size(shape):
    model = unet.build(input_shape=shape, width=1)
    outputs = model(np.random.default_rng(0).random((2, *shape), np.float32)).numpy()
    assert outputs.shape == (2, *shape[:2], 2)
    np.testing.assert_allclose(outputs.sum(axis=-1), 1, rtol=1e-5)


def test_padding_mirrors_again_and_again():
    row = MirrorTo(8)(tf.reshape(tf.range(3.0), [1, 1, 3, 1]))
    assert row.shape == (1, 8, 8, 1)
    np.testing.assert_array_equal(row[0, 0, :, 0], [0, 1, 2, 1, 0, 1, 2, 1])


def test_padding_changes_nothing_but_the_size():
    """A network for 24 × 24 is one for 32 × 32 that gets the mirrored image."""
    small, large = (unet.build(input_shape=(side, side, 1), width=2, depth=4) for side in (24, 32))
    image = np.random.default_rng(1).random((1, 24, 24, 1), np.float32)
    filled = np.pad(image, [(0, 0), (0, 8), (0, 8), (0, 0)], mode="reflect")
    np.testing.assert_allclose(small(image), large(filled)[:, :24, :24], atol=1e-5)


def test_weights_depend_on_the_seed_alone():
    first, again, other = (unet.build(input_shape=(16, 16, 1), width=2, seed=seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first.get_weights(), again.get_weights()))
    assert not np.array_equal(first.get_weights()[0], other.get_weights()[0])


def test_signals_keep_their_scale():
    """Without BatchNorm that is up to the initial weights: logits of a new network are neither dead nor huge."""
    model = unet.build(input_shape=(64, 64, 1), width=8)
    logits = tf.keras.Model(model.input, model.get_layer("classifier").output)
    spread = np.std(logits(grains(4, 64, 1)[0].astype(np.float32) / 255))
    assert 0.05 < spread < 5


LABELS = np.array([[[0, 1], [0, 0]], [[1, 1], [0, 1]]])
# Probability of the true class: a quarter at the first image's boundary pixel, a half elsewhere; all is certain in the
# second.
PROBABILITIES = np.array(
    [[[[0.5, 0.5], [0.75, 0.25]], [[0.5, 0.5], [0.5, 0.5]]], [[[0, 1], [0, 1]], [[1, 0], [0, 1]]]], np.float32
)


@pytest.mark.parametrize(
    ("weight", "first"), [(1.0, (3 * math.log(2) + math.log(4)) / 4), (5.0, (3 * math.log(2) + 5 * math.log(4)) / 8)]
)
def test_the_loss_by_hand(weight, first):
    found = unet.segmentation_loss(weight)(tf.constant(LABELS), tf.constant(PROBABILITIES)).numpy()
    assert found == pytest.approx([first, 0], abs=1e-5)


def test_a_confident_mistake_is_not_cut_off():
    """exp(−40) is 0 in the eyes of a clipped logarithm; the loss is computed from the softmax's inputs."""
    model = unet.build(input_shape=(8, 8, 1), width=1, depth=1)  # no crop
    cut = unet.build(input_shape=(7, 7, 1), width=1, depth=1)
    for network, side in ((model, 8), (cut, 7)):
        network.get_layer("classifier").set_weights([np.zeros((1, 1, 1, 2)), np.array([40.0, 0.0])])
        judge = tf.function(
            lambda x, y, network=network: unet.segmentation_loss()(y, network(x, training=True)), autograph=False
        )
        assert judge(tf.zeros([1, side, side, 1]), tf.ones([1, side, side], tf.int32)).numpy() == pytest.approx([40])


def test_it_learns_in_a_federated_round(in_process):
    from tests.conftest import largest_difference
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task

    images, labels = grains(8, 20, 1)
    arrays = images.astype(np.float32) / 255, labels.astype(np.int32)
    spec = tf.TensorSpec([None, 20, 20, 1], tf.float32), tf.TensorSpec([None, 20, 20], tf.int32)
    model = unet.build(input_shape=(20, 20, 1), width=4, depth=1)
    start = model.get_weights()
    loss = unet.segmentation_loss(2.0)
    round_ = build_round(Task.of_batches(model, spec, loss), FedAvg(learning_rate=0.02, optimizer="adam"))
    with in_process():
        state = round_.start(start)
        for _ in range(2):
            data = [tf.data.Dataset.from_tensor_slices(arrays).batch(4).repeat(4) for _ in range(2)]
            state = round_.next(state, [0, 1], data).state
    found = list(state.weights)
    assert largest_difference(start, found) > 0.01
    losses = []
    for weights in (start, found):
        model.set_weights(weights)
        losses.append(float(tf.reduce_mean(loss(arrays[1], model(arrays[0])))))
    assert losses[1] < 0.5 * losses[0], losses


def test_arguments_that_make_no_sense():
    with pytest.raises(ValueError, match=r"input_shape \(16, 16, 2\): expected"):
        unet.build(input_shape=(16, 16, 2))
    with pytest.raises(ValueError, match="width 0: must be at least 1"):
        unet.build(input_shape=(16, 16, 1), width=0)
    with pytest.raises(ValueError, match=r"boundary_weight is 0\.0; it must be above 0"):
        unet.segmentation_loss(0.0)
