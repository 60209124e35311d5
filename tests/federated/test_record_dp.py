"""DP-SGD: gradients of single examples as a loop has them, clipping by hand, the size of noise, what is refused."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from models.assembled import assemble
from models.norms import GroupNorm
from tests.conftest import arrays
from tests.federated.line import SPEC, START
from tests.federated.line import task as line_task
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated import per_example, record_noise, releases
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client, play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedfa import FedFA
from tffapps.federated.fedsam import FedSAM
from tffapps.federated.local import Private
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.unequal import ClassBalance
from tffapps.privacy.release import CLIENT, GAUSSIAN, RECORD, Release

layers = tf.keras.layers
IMAGES = (tf.TensorSpec([None, 8, 8, 3], tf.float32), tf.TensorSpec([None], tf.int32))


def by_a_loop(model, images, labels, clip):
    """Another way to the same numbers: one example after the other, in double precision after the gradient."""
    sums = [np.zeros(variable.shape) for variable in model.trainable_variables]
    for place in range(len(images)):
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels[place : place + 1], model(images[place : place + 1], training=True))
        gradients = [np.asarray(each, np.float64) for each in tape.gradient(loss, model.trainable_variables)]
        norm = np.sqrt(sum((each**2).sum() for each in gradients))
        sums = [total + each * min(1.0, clip / norm) for total, each in zip(sums, gradients)]
    return sums


def all_kinds(unknown: bool) -> tf.keras.Model:
    """Every kind of layer that is known, with strides, dilation and biases; one network inside another."""
    entry = layers.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, padding="same", activation="relu", name="known_conv")(entry)
    x = layers.DepthwiseConv2D(3, strides=2, padding="same")(x)
    x = layers.DepthwiseConv2D(2, use_bias=False, dilation_rate=1)(x)
    x = layers.Conv2D(6, 2, dilation_rate=2, use_bias=False)(x)
    norm = layers.BatchNormalization()
    norm.build((None, None, None, 6))
    x = GroupNorm(norm)(x)
    inner = layers.Input(x.shape[1:])
    x = tf.keras.Model(inner, layers.Conv2D(5, 1)(inner))(x)
    x = layers.Flatten()(x)
    x = layers.LayerNormalization()(x) if unknown else x
    return tf.keras.Model(entry, layers.Dense(3, activation="softmax")(x))


NETWORKS = {
    "all kinds": lambda: all_kinds(False),
    "an unknown kind": lambda: all_kinds(True),
    "tiny": lambda: assemble("tiny", input_shape=(8, 8, 3), classes=3, head="gap", norm="group").above,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_single_examples_are_a_loops(name):
    tf.keras.utils.set_random_seed(1)
    model, (images, labels) = NETWORKS[name](), arrays(0, 6)
    per_example.check(model)
    assert per_example._known(model) == (name != "an unknown kind")
    for clip in (0.3, 1e6):
        found = tf.function(lambda x, y, clip=clip: per_example.clipped_sum(model, cross_entropy, x, y, clip))
        for value, expected in zip(found(images, labels), by_a_loop(model, images, labels, clip)):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


def test_a_clip_and_a_step_by_hand():
    """k · 0.75 + b at (4, 1) is 4. A target of 2 gives the gradient (1.5, 2), of norm 2.5; one of 3.8 gives
    (0.15, 0.2), of norm 0.25. Clipped at 1: (0.6, 0.8) and (0.15, 0.2), whose mean is (0.375, 0.5)."""
    task = line_task()
    task.model.set_weights(START)
    x, y = tf.constant([[0.75], [0.75]]), tf.constant([2.0, 3.8])
    found = record_noise.gradients(task.model, task.loss, x, y, Private(0.0, 1.0, None), (0, 0))
    np.testing.assert_allclose([np.ravel(each)[0] for each in found], [0.375, 0.5], rtol=1e-5)
    round_ = build_round(task, FedAvg(learning_rate=0.1, record_dp=1e-9))
    with open_engine("in-process"):
        data = tf.data.Dataset.from_tensors((x, y))
        outcome = play(round_, round_.start(START), [Client("a", lambda number: data)], 1, 1)
    np.testing.assert_allclose(np.ravel(outcome.state.weights[0])[0], 4 - 0.0375, rtol=1e-6)
    np.testing.assert_allclose(np.ravel(outcome.state.weights[1])[0], 1 - 0.05, rtol=1e-6)
    assert np.isnan(outcome.loss) and np.isnan(outcome.reports["a"]["loss"])  # it would say more than the noise hides


def wide(method, seed=None, batches=1):
    """What one round moves 4000 weights by whose gradient is 0: nothing but noise."""
    model = tf.keras.Sequential([layers.Input((4000,)), layers.Dense(1, use_bias=False)])
    spec = (tf.TensorSpec([None, 4000], tf.float32), tf.TensorSpec([None], tf.float32))
    task = Task.of_batches(model, spec, lambda labels, outputs: outputs[:, 0] - labels)
    data = tf.data.Dataset.from_tensors((np.zeros((4, 4000), np.float32), np.zeros(4, np.float32))).repeat(batches)
    clients = [Client("a", lambda number: data), Client("b", lambda number: data)]
    if seed is not None:
        task = dataclasses.replace(task, client_spec=record_noise.Seeded.spec(task.client_spec))
        clients = record_noise.seeded(clients, seed)
    round_, start = build_round(task, method), [np.zeros((4000, 1), np.float32)]
    with open_engine("in-process"):
        return [play(round_, round_.start(start), clients, number, 1).state.weights[0] for number in (1, 1, 2)]


def test_noise_is_as_large_as_said_and_seeded_by_run_round_and_client():
    """Two clients' mean of noise z · C / n: 1.5 · 2 / 4 / √2, over two batches √2 times that."""
    method = FedAvg(learning_rate=1.0, record_dp=1.5, record_clip=2.0)
    first, again, later = wide(method, seed=3, batches=2)
    assert np.array_equal(first, again) and not np.array_equal(first, later)
    assert np.std(first) == pytest.approx(0.75, rel=0.05)  # clients that drew the same would have 0.75 · √2
    assert abs(np.corrcoef(first[:, 0], later[:, 0])[0, 1]) < 0.1
    one, two, _ = wide(method)  # from the system
    assert not np.array_equal(one, two) and np.std(one) == pytest.approx(0.75 / np.sqrt(2), rel=0.05)


def test_a_second_gradient_of_the_same_batch_has_noise_of_its_own():
    """FedSAM's step is its second gradient alone: its length is FedAvg's, its noise another."""
    plain, _, _ = wide(FedAvg(learning_rate=1.0, record_dp=1.0), seed=3)
    sharp, _, _ = wide(FedSAM(learning_rate=1.0, record_dp=1.0), seed=3)
    assert abs(np.corrcoef(plain[:, 0], sharp[:, 0])[0, 1]) < 0.1


def test_what_is_not_covered_is_refused_by_name(tiny_task):
    with pytest.raises(UserError, match=r"--record-dp: BatchNorm \(block1_bn\) .*--norm group"):
        build_round(tiny_task, FedAvg(record_dp=1.0))
    grouped = Task.of_batches(NETWORKS["tiny"](), IMAGES, cross_entropy)
    with pytest.raises(UserError, match=r"--record-dp: .* fedfa"):
        build_round(grouped, FedFA(record_dp=1.0))
    with pytest.raises(UserError, match="--record-dp: this --loss"):
        build_round(ClassBalance(loss="balanced").task(grouped), FedAvg(record_dp=1.0))
    one_number = Task.of_batches(line_task().model, SPEC, lambda labels, outputs: tf.reduce_mean(outputs))
    with pytest.raises(Exception, match="one number for a whole batch"):
        build_round(one_number, FedAvg(record_dp=1.0))


def test_what_a_round_releases():
    clients = [Client(name, lambda number: None, passes=passes) for name, passes in (("a", 2), ("b", 3), ("c", 2))]
    both = releases.of_round(FedSAM(record_dp=1.5), Aggregation("dp", dp_noise=0.7), clients, 4)
    assert both == [
        Release("update of round 4", GAUSSIAN, 0.7, unit=CLIENT, by=("a", "b", "c")),
        Release("update of round 4", GAUSSIAN, 1.5, 1.0, 4, RECORD, ("a", "c")),  # two passes, two gradients each
        Release("update of round 4", GAUSSIAN, 1.5, 1.0, 6, RECORD, ("b",)),
    ]
    assert releases.of_round(FedAvg(), Aggregation("secure"), clients, 1) == []
    with pytest.raises(UserError, match="--record-dp: nobody knows how often d"):
        releases.of_round(FedAvg(record_dp=1.0), Aggregation(), [Client("d", lambda number: None)], 1)
