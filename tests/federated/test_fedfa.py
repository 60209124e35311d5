"""FedFA: its maths in NumPy, the variance over clients by hand, what it reduces to, where its noise comes from."""

import numpy as np
import pytest
import tensorflow as tf

from models import classifiers
from models.cut import split
from tests.conftest import dataset, largest_difference
from tests.federated.test_round import after
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated.cohort import Client
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedfa import FedFA, Moments, augment, moments_of
from tffapps.federated.local import ClientContext
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy
from tffapps.runs import Run
from tffapps.training import train

RATE = 0.1
NONE_YET = 1e-6  # FedFA's epsilon


@pytest.fixture(scope="module")
def fedavg(tiny_task):
    return build_round(tiny_task, FedAvg(learning_rate=RATE))


@pytest.fixture(scope="module")
def always(tiny_task):
    return build_round(tiny_task, FedFA(learning_rate=RATE, fa_probability=1.0))


def moments_in_numpy(x):
    return x.mean((1, 2)), np.sqrt(x.var((1, 2)) + NONE_YET)


def spread_in_numpy(values, over_clients):
    share = 1 / (1 + 1 / (over_clients + NONE_YET))
    gamma = len(share) * share / share.sum()
    variance = values.var(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    return np.sqrt((gamma + 1) * (variance + NONE_YET))


@pytest.mark.parametrize("shape", [(5, 4, 3, 6), (1, 4, 4, 6), (3, 1, 1, 6)], ids=["maps", "one image", "one pixel"])
def test_the_layer(shape):
    rng = np.random.default_rng(0)
    x = rng.normal(2, 3, shape)
    over_clients, noise = (Moments(*rng.random((2, *size))) for size in ((6,), (len(x), 6)))
    mean, deviation = moments_in_numpy(x)
    new_mean = mean + noise.mean * spread_in_numpy(mean, over_clients.mean)
    new_deviation = deviation + noise.deviation * spread_in_numpy(deviation, over_clients.deviation)
    expected = (x - mean[:, None, None]) / deviation[:, None, None] * new_deviation[:, None, None]
    expected += new_mean[:, None, None]
    as_tensors = [Moments(*map(tf.constant, pair)) for pair in (over_clients, noise)]
    found = augment(tf.constant(x), moments_of(tf.constant(x)), *as_tensors)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.abs(found - x).max() > 1e-4


def test_channels_that_differ_between_clients_are_varied_more():
    x = tf.random.stateless_normal([64, 4, 4, 2], [0, 0])
    over_clients = Moments(tf.constant([0.0, 9.0]), tf.constant([1.0, 1.0]))
    noise = Moments(tf.ones([64, 2]), tf.zeros([64, 2]))
    moved = moments_of(augment(x, moments_of(x), over_clients, noise)).mean - moments_of(x).mean
    deviation = np.std(moments_of(x).mean, axis=0, ddof=1)
    # The shares are almost 0 and 0.9, and γ their ratio to the mean: 0 and 2.
    np.testing.assert_allclose(moved[0] / deviation, np.sqrt([1, 3]), rtol=1e-2)


def test_how_often():
    method, x = FedFA(fa_probability=0.3), tf.random.stateless_normal([2, 2, 2, 3], [1, 1])
    ones = Moments(tf.ones([3]), tf.ones([3]))
    changed = [
        bool(tf.reduce_any(method.sometimes_augmented(x, moments_of(x), ones, tf.constant([7, number])) != x))
        for number in range(300)
    ]
    assert 60 < sum(changed) < 120  # 90 expected, standard deviation 8


def test_p_0_is_fedavg_statistics_included(fedavg, tiny_task, tiny_weights):
    data = [dataset(0), dataset(1, 16)]
    expected, reports = after(fedavg, tiny_weights, data)
    found, own = after(build_round(tiny_task, FedFA(learning_rate=RATE, fa_probability=0.0)), tiny_weights, data)
    assert largest_difference(found, expected) < 1e-6
    np.testing.assert_allclose(own, reports, atol=1e-6)


def input_task():
    """A network whose one stage is its input."""
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((2, 2, 2)), layers.Flatten(), layers.Dense(2, "softmax")], name="x_head")
    spec = (tf.TensorSpec([None, 2, 2, 2], tf.float32), tf.TensorSpec([None], tf.int32))
    return Task.of_batches(model, spec, cross_entropy)


def images_of(client, count):
    return np.random.default_rng([3, client]).normal(3 * client, 1 + 3 * client, (count, 2, 2, 2)).astype(np.float32)


def average_in_numpy(images, momentum, batch=2):
    """The momentum average of (mean, deviation) over batches, corrected for its start."""
    average, steps = np.zeros((2, 2)), 0
    for start in range(0, len(images), batch):
        moments = [values.mean(0) for values in moments_in_numpy(images[start : start + batch].astype(np.float64))]
        average, steps = momentum * average + (1 - momentum) * np.array(moments), steps + 1
    return average / (1 - momentum**steps)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_variance_over_clients_by_hand(probability):
    """The input does not change while the network learns, so that every average can be worked out."""
    task, momentum, sizes = input_task(), 0.8, (6, 4)
    method = FedFA(learning_rate=RATE, fa_momentum=momentum, fa_probability=probability)
    images = [images_of(client, count) for client, count in enumerate(sizes)]
    data = [tf.data.Dataset.from_tensor_slices((one, np.zeros(len(one), np.int32))).batch(2) for one in images]
    round_ = build_round(task, method)
    assert (round_.bytes_down(1), round_.bytes_up(1)) == (72 + 8 + 2 * 8, 72 + 4 * 8 + 16)
    with open_engine("in-process"):
        first = round_.start(task.model.get_weights())
        state = round_.next(first, [0, 1], data).state
    assert [values.tolist() for values in first.memory[1:]] == [[1, 1], [1, 1]]
    averages = np.array([average_in_numpy(one, momentum) for one in images])  # (clients, mean or deviation, channels)
    weights = np.array(sizes) / sum(sizes)
    centre = np.tensordot(weights, averages, 1)
    by_hand = np.tensordot(weights, (averages - centre) ** 2, 1)
    assert by_hand.min() > 1e-3
    np.testing.assert_allclose(state.memory[1:], by_hand, rtol=1e-4)


def test_a_run_that_was_killed_goes_on_with_its_noise(tmp_path):
    task = input_task()
    round_, start = build_round(task, FedFA(learning_rate=RATE, fa_probability=1.0)), task.model.get_weights()
    labels = np.arange(8, dtype=np.int32) % 2
    data = [tf.data.Dataset.from_tensor_slices((images_of(client, 8), labels)).batch(4) for client in (0, 1)]
    clients = [Client(f"{place}", lambda _, one=one: one) for place, one in enumerate(data)]

    def trained(name, seed, killed_in=None):
        def evaluate(trained):
            if len(run.rounds()) + 1 == killed_in:
                raise KeyboardInterrupt
            return {}

        with open_engine("in-process") as engine, Run(tmp_path, name, {}) as run:
            return train(run, round_, start, clients, rounds=3, evaluate=evaluate, engine=engine, seed=seed).weights

    expected = trained("whole", 1)
    for killed_in in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            trained("killed", 1, killed_in)
    assert largest_difference(trained("killed", 1), expected) == 0
    assert largest_difference(trained("another seed", 2), expected) > 1e-4


def test_one_client_alone_has_no_variance_over_clients():
    task = input_task()
    data = tf.data.Dataset.from_tensor_slices((images_of(1, 4), np.zeros(4, np.int32))).batch(2)
    round_ = build_round(task, FedFA())
    with open_engine("in-process"):
        state = round_.next(round_.start(task.model.get_weights()), [0], [data]).state
    assert all(np.min(values) >= 0 and np.max(values) < 1e-5 for values in state.memory[1:])


def test_noise_comes_from_the_seed_the_round_and_the_client(always, tiny_weights):
    def moved(seed=0, position=0, rounds_before=0):
        state = always.start(tiny_weights, seed)
        for _ in range(rounds_before):
            key = always.next(state, [0], [dataset(0)]).state.memory[0]
            state = state._replace(memory=[key, *state.memory[1:]])
        return always.next(state, [position], [dataset(0)]).state.weights

    with open_engine("in-process"):
        base = moved()
        assert largest_difference(base, moved()) == 0
        for other in ({"seed": 1}, {"position": 1}, {"rounds_before": 1}):
            assert largest_difference(base, moved(**other)) > 1e-4


def test_engines_agree(tiny_task, tiny_weights):
    round_ = build_round(tiny_task, FedFA(learning_rate=RATE))
    data = [dataset(0), dataset(1, 12)]
    here, _ = after(round_, tiny_weights, data)
    there, _ = after(round_, tiny_weights, data, engine="worker")
    assert largest_difference(here, there) < 1e-5


def test_a_head_on_stored_feature_maps():
    _, head = split(classifiers.build("tiny", input_shape=(16, 16, 3), classes=3), "head")
    spec = (tf.TensorSpec([None, 2, 2, 32], tf.float32), tf.TensorSpec([None], tf.int32))
    features = np.random.default_rng(0).random((8, 2, 2, 32), dtype=np.float32)
    data = tf.data.Dataset.from_tensors((features, np.arange(8, dtype=np.int32) % 3))
    task, start = Task.of_batches(head, spec, cross_entropy), head.get_weights()
    methods = FedAvg(learning_rate=RATE), FedFA(learning_rate=RATE, fa_probability=1.0)
    (plain, _), (varied, reports) = (after(build_round(task, method), start, [data], rounds=1) for method in methods)
    assert reports[0][1] == 1 and largest_difference(plain, varied) > 1e-4


def test_a_network_without_stages_is_refused():
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2, "softmax")], name="flat")
    spec = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
    with pytest.raises(UserError, match=r"--methods fedfa: model flat: .* it has no stages; leave it out"):
        build_round(Task.of_batches(model, spec, cross_entropy), FedFA())


@pytest.mark.slow
def test_densenet121_takes_a_step():
    model = classifiers.build("densenet121", input_shape=(32, 32, 3), classes=2)
    spec = (tf.TensorSpec([None, 32, 32, 3], tf.float32), tf.TensorSpec([None], tf.int32))
    task, method = Task.of_batches(model, spec, cross_entropy), FedFA(learning_rate=RATE, fa_probability=1.0)
    before = model.get_weights()
    memory = [tf.constant(value) for value in method.first_memory(task, before, 0)]
    images = np.random.default_rng(0).random((4, 32, 32, 3), dtype=np.float32)
    data = tf.data.Dataset.from_tensors((images, np.array([0, 1, 0, 1], np.int32)))
    done = method.work(task, data, ClientContext(tf.constant(0), memory))
    assert done.examples == 4 and np.isfinite(done.loss)
    assert [value.shape for value in done.sent] == [spec.shape for spec in method.sent_specs(task)]
    assert [len(value) for value in done.sent[::4]] == [256, 512, 1024, 1024]
    moved = [np.abs(new - old).max() for new, old in zip(model.get_weights(), before)]
    assert np.isfinite(moved).all() and moved[0] > 0 and moved[-1] > 0  # gradients reach the first layer
