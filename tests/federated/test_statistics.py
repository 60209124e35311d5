"""Re-estimated BatchNorm statistics: those of all clients' images, by hand; nothing else changes, on any engine."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import largest_difference
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.embeddings import TrainingAndOnce
from tffapps.federated.fixmatch import PartlyLabelledData
from tffapps.federated.local import Counted
from tffapps.federated.pseudo_label import UnlabelledData
from tffapps.federated.round import AveragingState, State
from tffapps.federated.statistics import build_reestimation, reestimate
from tffapps.federated.task import Task, cross_entropy, path_to_images
from tffapps.federated.tested import DataAndTest

layers = tf.keras.layers
SPEC = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
SIZES, BATCHES = {"one": 5, "two": 8}, {"one": 2, "two": 3}  # the last batch of each is smaller
EPSILON = 1e-3


def network(frozen: str = "") -> tf.keras.Model:
    parts = [layers.BatchNormalization(name="first"), layers.Dense(3), layers.BatchNormalization(name="second")]
    model = tf.keras.Sequential([layers.Input((2,)), *parts, layers.Dense(2, "softmax")])
    for layer in model.layers:
        layer.trainable = layer.name != frozen
    return model


@functools.cache
def weights() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [np.abs(rng.normal(size=value.shape)).astype(np.float32) for value in network().weights]


def named(model: tf.keras.Model, values) -> dict[str, np.ndarray]:
    return {variable.name.split(":")[0]: np.asarray(value) for variable, value in zip(model.weights, values)}


def images(name: str) -> np.ndarray:
    """Means far from zero: their squares are a hundred thousand times the variances."""
    rng = np.random.default_rng(len(name) + SIZES[name])
    return (rng.normal(size=(SIZES[name], 2)) * [1.0, 3.0] + [400.0, -7.0 * SIZES[name]]).astype(np.float32)


def client(name: str, change=lambda batches: batches) -> Client:
    data = images(name), np.zeros(SIZES[name], np.int32)
    return Client(name, lambda _: change(tf.data.Dataset.from_tensor_slices(data).batch(BATCHES[name])))


def state(values) -> State:
    return State(list(values), (), (), [])


def played(reestimation, start, clients, engine="in-process"):
    with open_engine(engine):
        return reestimate(reestimation, start, clients, 1, {each.name for each in clients})


def by_hand(inputs_of_batches: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance by channel of what a layer sees, batch by batch."""
    values = np.concatenate(inputs_of_batches)
    return values.mean(axis=0), values.var(axis=0)


def batches_of(name: str) -> list[np.ndarray]:
    step = BATCHES[name]
    return [images(name)[start : start + step].astype(float) for start in range(0, SIZES[name], step)]


@pytest.fixture(scope="module")
def task():
    return Task.of_batches(network(), SPEC, cross_entropy)


@pytest.fixture(scope="module")
def plain(task):
    return build_reestimation(task)


def expected() -> dict[str, np.ndarray]:
    found = named(network(), weights())
    seen = [batch for name in SIZES for batch in batches_of(name)]
    between = []
    for batch in seen:
        standard = (batch - batch.mean(axis=0)) / np.sqrt(batch.var(axis=0) + EPSILON)
        scaled = standard * found["first/gamma"] + found["first/beta"]
        kernel, bias = (
            next(value for name, value in found.items() if name.endswith(end)) for end in ("kernel", "bias")
        )
        between.append(scaled @ kernel + bias)
    for name, inputs in (("first", seen), ("second", between)):
        found[f"{name}/moving_mean"], found[f"{name}/moving_variance"] = by_hand(inputs)
    return found


@pytest.mark.parametrize("engine", ["in-process", "worker"])
def test_the_statistics_of_all_images_by_hand(engine, task, plain):
    done = played(plain, state(weights()), [client("one"), client("two")], engine)
    assert (done.clients, done.left_out) == (2, {})
    found, hand = named(task.model, done.state.weights), expected()
    for name, before in named(task.model, weights()).items():
        if "moving" in name:
            np.testing.assert_allclose(found[name], hand[name], rtol=1e-4, atol=1e-5, err_msg=name)
            assert np.abs(found[name] - before).max() > 0.1
        else:
            assert np.array_equal(found[name], before), name


def test_images_are_counted_in_space_too_without_bessels_correction():
    """One image of two pixels: fused, Keras would store twice the variance."""
    model = tf.keras.Sequential([layers.Input((1, 2, 1)), layers.BatchNormalization(), layers.Flatten()])
    assert model.layers[0].fused and model.layers[0].momentum == 0.99
    spec = (tf.TensorSpec([None, 1, 2, 1]), tf.TensorSpec([None], tf.int32))
    made = build_reestimation(Task.of_batches(model, spec, cross_entropy))
    assert model.layers[0].fused and model.layers[0].momentum == 0.99  # as they were
    pixels = [[1.0, 3.0], [5.0, 9.0], [5.0, 9.0]]
    data = np.reshape(np.array(pixels, np.float32), (3, 1, 2, 1)), np.zeros(3, np.int32)
    one = Client("one", lambda _: tf.data.Dataset.from_tensor_slices(data).batch(1))
    *_, mean, variance = played(made, state(model.get_weights()), [one]).state.weights
    assert mean == pytest.approx([np.mean(pixels)]) and variance == pytest.approx([np.var(pixels)])


def test_frozen_batchnorm_stays_and_is_in_inference_mode():
    task = Task.of_batches(network(frozen="first"), SPEC, cross_entropy)
    values = [np.full(variable.shape, 1.5, np.float32) for variable in task.model.weights]
    found = named(task.model, played(build_reestimation(task), state(values), [client("one")]).state.weights)
    assert found["first/moving_mean"].tolist() == [1.5, 1.5] and found["first/moving_variance"].tolist() == [1.5, 1.5]
    standard = (images("one").astype(float) - 1.5) / np.sqrt(1.5 + EPSILON)
    mean, variance = by_hand([(standard * 1.5 + 1.5) @ np.full((2, 3), 1.5) + 1.5])
    np.testing.assert_allclose(found["second/moving_mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(found["second/moving_variance"], variance, rtol=1e-3)


def poisoned(batches):
    return batches.map(lambda pictures, labels: (pictures * np.nan, labels))


def failing(batches):
    def fail(pictures, labels):
        with tf.control_dependencies([tf.debugging.assert_less(tf.reduce_max(pictures), 0.0, message="bad disk")]):
            return tf.identity(pictures), labels

    return batches.map(fail)


@pytest.mark.parametrize("engine", ["in-process", "worker"])
@pytest.mark.parametrize(
    ("change", "why"),
    [(poisoned, "not finite"), (lambda batches: batches.take(0), "no usable examples"), (failing, "failed: ")],
    ids=["not finite", "empty", "failing"],
)
def test_a_bad_client_is_left_out_and_named(change, why, engine, plain):
    alone = played(plain, state(weights()), [client("one")])
    beside = played(plain, state(weights()), [client("two", change), client("one")], engine)
    assert list(beside.left_out) == ["two"] and why in beside.left_out["two"] and beside.clients == 1
    assert largest_difference(beside.state.weights, alone.state.weights) < 1e-5
    nobody = played(plain, state(weights()), [client("two", change)], engine)
    assert nobody.clients == 0 and largest_difference(nobody.state.weights, weights()) == 0


def test_who_could_not_train_is_not_asked(plain):
    with open_engine("in-process"):
        done = reestimate(plain, state(weights()), [client("two", failing), client("one")], 1, {"one"})
    assert (done.clients, done.left_out, done.bytes_down) == (1, {}, plain.bytes_down(1))


def test_a_mean_over_rounds_gets_statistics_of_its_own(plain, task):
    mean = [value + 0.5 for value in weights()]
    both = AveragingState(list(weights()), (), (), [], np.int32(3), mean)
    done = played(plain, both, [client("one"), client("two")])
    for found, start in ((done.state.weights, weights()), (done.state.mean, mean)):
        alone = played(plain, state(start), [client("one"), client("two")])
        assert largest_difference(found, alone.state.weights) == 0
    assert largest_difference(done.state.mean, done.state.weights) > 0.5 and done.state.number == 3
    assert (done.bytes_down, done.bytes_up) == (2 * plain.bytes_down(2), 2 * plain.bytes_up(2))


def test_bytes_by_hand(plain, task):
    assert plain.bytes_down(3) == 3 * sum(value.nbytes for value in weights())
    assert plain.bytes_up(3) == 3 * (2 * (2 + 3) * 8 + 3 * 4)  # E[x] and E[x²] of 2 and 3 channels; the report


def test_secure_sums_are_the_same_and_what_is_too_large_is_left_out(task, plain):
    secure = build_reestimation(task, Aggregation("secure"))

    def smaller(batches):
        return batches.map(lambda pictures, labels: (pictures / 100.0, labels))

    both = [client("one", smaller), client("two", smaller)]
    found, sums = (played(made, state(weights()), both).state.weights for made in (secure, plain))
    assert largest_difference(found, weights()) > 0.1 and largest_difference(found, sums) < 2e-3
    larger = client("two", lambda batches: batches.map(lambda pictures, labels: (pictures * 1000.0, labels)))
    done = played(secure, state(weights()), [both[0], larger])
    assert done.clients == 1 and "too large" in done.left_out["two"]


def test_nothing_is_built_where_nothing_is_to_do_and_dp_is_refused():
    model = network(frozen="first")
    model.get_layer("second").trainable = False
    task = Task.of_batches(model, SPEC, cross_entropy)
    assert build_reestimation(task) is None
    with pytest.raises(UserError, match="--reestimate: --aggregator dp would neither noise nor count"):
        build_reestimation(task, Aggregation("dp"))


DATASET, OTHER = tf.data.DatasetSpec(SPEC), tf.data.DatasetSpec(tf.TensorSpec([None], tf.float32))
PARTS = {
    "one dataset": (DATASET, ()),
    "images alone": (tf.data.DatasetSpec(SPEC[0]), ()),
    "counted": (Counted.spec(SPEC), (0,)),
    "training and once": (TrainingAndOnce.spec(SPEC, Counted.spec(SPEC)), (0, 0)),
    "pseudo-labelling": (UnlabelledData.spec(SPEC), (2,)),
    "FixMatch, tested": (DataAndTest.spec(PartlyLabelledData.spec(SPEC), SPEC), (0, 0)),
    "not the first": (Counted(OTHER, DATASET), (1,)),
}


@pytest.mark.parametrize("name", PARTS)
def test_which_part_of_a_clients_data_is_used(name):
    spec, path = PARTS[name]
    assert path_to_images(Task(network(), spec, cross_entropy)) == path


def test_data_without_what_the_model_takes():
    with pytest.raises(ValueError, match="no dataset of what it takes"):
        build_reestimation(Task(network(), OTHER, cross_entropy))


def test_the_training_part_is_what_is_used(plain):
    task = Task(network(), DataAndTest.spec(Counted.spec(SPEC), SPEC), cross_entropy)
    data = client("one").batches(1)
    nested = Client("one", lambda _: DataAndTest(Counted(data, 3), data.take(0)))
    found = played(build_reestimation(task), state(weights()), [nested]).state.weights
    assert largest_difference(found, played(plain, state(weights()), [client("one")]).state.weights) == 0
