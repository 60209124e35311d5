"""Which images a client trains on, which it holds out, which it never counts."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client, play
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData, relative_ranks
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

SPEC = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
START = [np.eye(2, dtype=np.float32), np.zeros(2, np.float32)]  # the scores are the inputs
# Ten sure images (0.95 and more), class 0 first, then class 1; rows 2 and 7 stand last in the order.
IMAGES = np.array([[3 + 0.1 * row, 0] if row < 5 else [0, 3 + 0.1 * row] for row in range(10)], np.float32)
DRAW = np.array([0.1, 0.2, 0.95, 0.3, 0.4, 0.5, 0.6, 0.9, 0.7, 0.8], np.float32)
TRUTH = np.array([0] * 5 + [1] * 5, np.int32)


@pytest.fixture(scope="module")
def outcome():
    """A round of one client from START, as a function; every round is built once."""
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2, "softmax")])
    task = Task(model, UnlabelledData.spec(SPEC), cross_entropy)

    @functools.cache
    def built(method):
        return build_round(task, method)

    def outcome(data, **settings):
        round_ = built(PseudoLabel(learning_rate=0.5, **settings))
        with open_engine("in-process"):
            return play(round_, round_.start(START), [Client("a", lambda _: data)], 1, 1)

    return outcome


def data(images=IMAGES, truth=TRUTH, draw=DRAW, come=None, epochs=1) -> UnlabelledData:
    """`come` are the rows whose files can be read."""
    rows = np.arange(len(images), dtype=np.int32)[slice(None) if come is None else come]
    dataset = tf.data.Dataset.from_tensor_slices((images[rows], rows))
    return UnlabelledData(
        labelling=dataset.batch(4),
        testing=dataset.batch(4),
        training=dataset.repeat(epochs).batch(3),
        truth=np.asarray(truth, np.int32),
        epochs=np.int32(epochs),
        draw=np.asarray(draw, np.float32),
        prior=np.array([0.5, 0.5], np.float32),
    )


def counts(found, what):
    return [[found.reports["a"][f"{what}_{i}_{j}"] for j in range(2)] for i in range(2)]


@pytest.mark.parametrize("kept_count", [1, 7, 10, 30, 990])
def test_shares_are_exact_among_the_kept(kept_count):
    rng = np.random.default_rng(kept_count)
    draw = rng.random(1000, dtype=np.float32)
    kept = np.zeros(1000, bool)
    kept[rng.permutation(1000)[:kept_count]] = True
    place = relative_ranks(tf.constant(kept), tf.constant(draw)).numpy()
    ranks = np.argsort(np.argsort(draw[kept]))  # of each kept image in the order of the draw
    np.testing.assert_array_equal(place[kept], (ranks / np.float32(kept_count)).astype(np.float32))
    trained, tested = kept & (place < np.float32(0.8)), kept & (place >= np.float32(1.0 - 0.1))
    assert trained.sum() == -(-8 * kept_count // 10)  # rounded up
    assert tested.sum() == kept_count // 10
    assert not (trained & tested).any()
    assert place[~kept].min() >= 1


def test_nothing_kept_has_no_place():
    assert relative_ranks(tf.zeros(3, tf.bool), tf.constant([0.5, 0.1, 0.9])).numpy().min() >= 0


def test_ten_kept_are_eight_one_and_one(outcome):
    found = outcome(data(epochs=2))
    assert found.examples == 16  # two epochs of eight
    assert np.sum(counts(found, "test")) == 1
    assert counts(found, "test")[0] == [1, 0]  # row 2, the last in the order
    assert [found.reports["a"][name] for name in ("kept_0", "kept_1", "right_0", "right_1")] == [5, 5, 5, 5]


def test_images_below_the_threshold_take_no_place(outcome):
    images = np.concatenate([IMAGES, np.full((10, 2), 0.1, np.float32)])  # ten of which the model is not sure
    draw = np.concatenate([DRAW, np.linspace(0, 1, 10, endpoint=False)])
    found = outcome(data(images, [*TRUTH, *[0] * 10], draw))
    alone = outcome(data())
    assert found.examples == alone.examples == 8
    assert largest_difference(found.state.weights, alone.state.weights) < 1e-7
    assert np.sum(counts(found, "truth")) == 20


def test_what_is_held_out_trains_nothing(outcome):
    plain = outcome(data()).state.weights
    held_out = IMAGES.copy()
    held_out[2], held_out[7] = [9.0, -4.0], [5.0, 0.5]  # sure of its class as before, sure of the other class
    assert largest_difference(outcome(data(held_out)).state.weights, plain) == 0
    trained = IMAGES.copy()
    trained[3] = [9.0, -4.0]
    assert largest_difference(outcome(data(trained)).state.weights, plain) > 1e-4


def test_the_draw_decides_who_is_held_out(outcome):
    plain = outcome(data()).state.weights
    assert largest_difference(outcome(data(draw=np.roll(DRAW, 1))).state.weights, plain) > 1e-5
    assert outcome(data(), train_share=1.0).examples == 10


def test_an_unreadable_image_is_not_kept_whatever_the_threshold(outcome):
    come = [row for row in range(10) if row not in (0, 7)]
    found = outcome(data(come=come), threshold=0.0)
    assert [found.reports["a"][name] for name in ("kept_0", "kept_1")] == [4, 4]
    assert found.examples == 7  # of eight: relative_ranks 0 to 6 are below 0.8
    assert counts(found, "truth") == [[4, 0], [0, 4]]
    without = outcome(data(IMAGES[come], TRUTH[come], DRAW[come]), threshold=0.0)
    assert largest_difference(found.state.weights, without.state.weights) < 1e-7


def test_every_readable_image_with_a_known_truth_is_counted(outcome):
    images = np.concatenate([IMAGES, [[0.1, 0.0], [0.0, 0.1]]]).astype(np.float32)  # two more, not kept
    truth = [0, 0, 1, -1, -1, 1, 1, 0, 1, -1, 1, 1]
    found = outcome(data(images, truth, [*DRAW, 0.0, 0.0], come=[row for row in range(12) if row != 1]))
    # Class 0 is predicted for rows 0 to 4 and 10. Rows 3, 4 and 9 are unknown, row 1 never comes.
    assert counts(found, "truth") == [[1, 1], [2, 4]]
    assert found.reports["a"]["kept_0"] == 4 and found.reports["a"]["kept_1"] == 5
    assert found.reports["a"]["right_0"] == 1 and found.reports["a"]["right_1"] == 3
