"""The round: the weighted mean by hand, plain training, both engines, methods that reduce to FedAvg."""

import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import arrays, dataset, largest_difference
from tffapps.engine import open_engine
from tffapps.engine.values import Deferred
from tffapps.federated.aggregation import AGAINST_BAD, NAMES, Aggregation
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fedavgm import FedAvgM
from tffapps.federated.fedprox import FedProx
from tffapps.federated.methods import METHODS, PLAYED
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

RATE = 0.1
PLAIN = [name for name in NAMES if name not in AGAINST_BAD]  # the others: test_against_bad_clients.py


def after(round_, weights, datasets, rounds=2, engine="in-process"):
    with open_engine(engine):
        state, kept = round_.start(weights), [round_.first_kept(weights)] * len(datasets)
        for _ in range(rounds):
            result = round_.next(state, list(range(len(datasets))), datasets, kept=kept)
            state, reports, kept = result.state, result.reports, [_read(each) for each in result.kept]
    return list(state.weights), reports


def _read(kept):
    return [np.asarray(array) for array in (kept.make() if isinstance(kept, Deferred) else kept)]


@pytest.fixture(scope="module")
def fedavg(tiny_task):
    return build_round(tiny_task, FedAvg(learning_rate=RATE))


def plain_training(task, weights, data, epochs=1):
    """The same steps by Keras's own optimiser."""
    task.model.set_weights(weights)
    optimizer = tf.keras.optimizers.SGD(RATE)
    for _ in range(epochs):
        for images, labels in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(task.loss(labels, task.model(images, training=True)))
            variables = task.model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return task.model.get_weights()


def test_one_client_is_plain_training(fedavg, tiny_task, tiny_weights):
    federated, reports = after(fedavg, tiny_weights, [dataset(0)])
    plain = plain_training(tiny_task, tiny_weights, dataset(0), epochs=2)
    assert largest_difference(federated, plain) < 1e-6
    assert largest_difference(federated, tiny_weights) > 1e-3
    assert reports[0][:3].tolist() == [0, 1, 24]


def test_weighted_mean_of_all_weights_by_hand(fedavg, tiny_task, tiny_weights):
    data = [dataset(0, 24), dataset(1, 8)]
    federated, _ = after(fedavg, tiny_weights, data, rounds=1)
    alone = [plain_training(tiny_task, tiny_weights, one) for one in data]
    by_hand = [(24 * first + 8 * second) / 32 for first, second in zip(*alone)]
    assert largest_difference(federated, by_hand) < 1e-6
    statistics = [i for i, trained in enumerate(fedavg.layout.trainable) if not trained]
    assert statistics and any(np.abs(federated[i] - tiny_weights[i]).max() > 1e-3 for i in statistics)


def test_engines_agree_batchnorm_included(fedavg, tiny_weights):
    data = [dataset(0), dataset(1, 12)]
    here, _ = after(fedavg, tiny_weights, data)
    there, _ = after(fedavg, tiny_weights, data, engine="worker")
    assert largest_difference(here, there) < 1e-5


def test_the_same_round_twice_is_bit_identical(fedavg, tiny_weights):
    first, _ = after(fedavg, tiny_weights, [dataset(0), dataset(1)])
    second, _ = after(fedavg, tiny_weights, [dataset(0), dataset(1)])
    assert largest_difference(first, second) == 0


@pytest.mark.parametrize(
    "method",
    [FedProx(learning_rate=RATE, mu=0.0), FedAvgM(learning_rate=RATE, server_momentum=0.0)],
    ids=lambda method: method.name,
)
def test_reduces_to_fedavg(method, fedavg, tiny_task, tiny_weights):
    data = [dataset(0), dataset(1)]
    expected, _ = after(fedavg, tiny_weights, data)
    found, _ = after(build_round(tiny_task, method), tiny_weights, data)
    assert largest_difference(found, expected) < 1e-7


HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("name", [name for name in PLAYED if not list(HERE.glob(f"test_{name}*.py"))])
def test_methods_without_tests_of_their_own_differ_from_fedavg(name, fedavg, tiny_task, tiny_weights):
    stronger = {"mu": 1.0} if name == "fedprox" else {}
    data = [dataset(0), dataset(1)]
    expected, _ = after(fedavg, tiny_weights, data)
    found, _ = after(build_round(tiny_task, METHODS[name](learning_rate=RATE, **stronger)), tiny_weights, data)
    assert largest_difference(found, expected) > 1e-4


def test_fedprox_pulls_towards_the_global_model(fedavg, tiny_task, tiny_weights):
    strong = build_round(tiny_task, FedProx(learning_rate=RATE, mu=5.0))
    trained = fedavg.layout.trained
    distances = []
    for round_ in (fedavg, strong):
        weights, _ = after(round_, tiny_weights, [dataset(0)], rounds=1)
        distances.append(sum(np.sum((a - b) ** 2) for a, b in zip(trained(weights), trained(tiny_weights))))
    assert distances[1] < 0.9 * distances[0]


@pytest.fixture(scope="module")
def gentle(tiny_task, tiny_weights):
    """After a round of small updates."""
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.01))
    return after(round_, tiny_weights, [dataset(0), dataset(1)], rounds=1)[0]


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "mean"])
def test_aggregators(name, gentle, tiny_task, tiny_weights):
    """With small updates, no noise and equal clients every aggregator is the mean, up to its own rounding."""
    aggregation = Aggregation(name, dp_noise=0.0, dp_clip=1e3)
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.01), aggregation, 2)
    found, _ = after(round_, tiny_weights, [dataset(0), dataset(1)], rounds=1)
    assert largest_difference(gentle, tiny_weights) > 0.1  # the statistics move far, and are not clipped
    assert largest_difference(found, gentle) < 1e-4


@pytest.mark.parametrize("name", PLAIN)
def test_a_model_without_statistics(name):
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2, "softmax", name="only")])
    spec = (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int32))
    round_ = build_round(Task.of_batches(model, spec, cross_entropy), FedAvg(learning_rate=RATE), Aggregation(name), 1)
    start = [np.zeros((2, 2), np.float32), np.zeros(2, np.float32)]
    data = tf.data.Dataset.from_tensors((np.ones((4, 2), np.float32), np.array([0, 0, 0, 1], np.int32)))
    weights, _ = after(round_, start, [data], rounds=1)
    if name != "dp":  # softmax of zeros: gradient of the bias is (0.5, 0.5) − (0.75, 0.25)
        assert weights[1] == pytest.approx([0.025, -0.025], abs=1e-5)


def test_secure_sums_are_right_for_clients_with_many_examples(fedavg, tiny_task, tiny_weights):
    data = [dataset(0, 1200, batch=100), dataset(1, 600, batch=100)]
    expected, _ = after(fedavg, tiny_weights, data, rounds=1)
    secure = build_round(tiny_task, FedAvg(learning_rate=RATE), Aggregation("secure"))
    found, _ = after(secure, tiny_weights, data, rounds=1)
    assert largest_difference(expected, tiny_weights) > 0.5
    assert largest_difference(found, expected) < 1e-4


def test_noise_never_makes_a_variance_negative(tiny_task, tiny_weights):
    noisy = build_round(tiny_task, FedAvg(learning_rate=RATE), Aggregation("dp", dp_noise=30.0), 2)
    weights, _ = after(noisy, tiny_weights, [dataset(0), dataset(1)], rounds=2)
    variances = [value for value, flag in zip(weights, noisy.layout.variance) if flag]
    assert variances and min(value.min() for value in variances) == 0
    means = noisy.layout.statistics(weights)
    assert min(value.min() for value in means) < 0  # the noise is there


def test_dp_clips_and_spends_privacy(tiny_task, tiny_weights):
    aggregation = Aggregation("dp", dp_noise=0.0, dp_clip=1e-3)
    round_ = build_round(tiny_task, FedAvg(learning_rate=RATE), aggregation, 2)
    weights, _ = after(round_, tiny_weights, [dataset(0), dataset(1)], rounds=1)
    norm = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(weights, tiny_weights)))
    assert norm <= 1.001e-3
    assert aggregation.epsilon(1) == float("inf")
    noisy = dataclasses.replace(aggregation, dp_noise=1.0)
    assert 4 < noisy.epsilon(1) < 6  # one Gaussian mechanism with sigma 1 at delta 1e-5: 4.38 exactly, RDP a bit above
    assert noisy.epsilon(10) > noisy.epsilon(1)
    assert Aggregation().epsilon(10) is None


def test_bytes_by_hand(fedavg, tiny_task):
    size = sum(weight.nbytes for weight in tiny_task.model.get_weights())
    assert fedavg.bytes_down(3) == 3 * size
    assert fedavg.bytes_up(3) == 3 * (size + 16)
    layout = dataclasses.replace(
        fedavg.layout,
        shapes=((100, 300), (5,)),
        dtypes=(np.dtype("f4"),) * 2,
        trainable=(True, True),
        variance=(False,) * 2,
    )
    assert Aggregation("compressed").bytes_up(layout) == 4 * 8_572 + 8 + 20  # 3.5 values in 4 bytes


def test_wrong_initial_weights_are_refused(fedavg, tiny_weights):
    with pytest.raises(ValueError, match="shapes"):
        fedavg.start(tiny_weights[:-1])


def test_adam_and_momentum_train(tiny_task, tiny_weights):
    for method in (FedAvg(optimizer="adam", learning_rate=1e-3), FedAvg(momentum=0.9, learning_rate=RATE)):
        weights, reports = after(build_round(tiny_task, method), tiny_weights, [dataset(0)], rounds=1)
        assert np.isfinite(reports).all() and largest_difference(weights, tiny_weights) > 1e-4
    with pytest.raises(ValueError, match="choose sgd, adam or adamw"):
        build_round(tiny_task, FedAvg(optimizer="lbfgs"))


def test_a_model_that_uses_a_foreign_variable_is_refused(tiny_task):
    foreign = tf.Variable(1.0)
    task = Task.of_batches(
        tiny_task.model, tiny_task.client_spec.element_spec, lambda y, p: foreign * tiny_task.loss(y, p)
    )
    with pytest.raises(ValueError, match="does not belong to its model"):
        build_round(task, FedAvg())


def test_the_arrays_of_two_clients_differ():
    assert largest_difference(arrays(0)[:1], arrays(1)[:1]) > 0.1


def test_the_result_can_be_the_mean_over_rounds(tiny_task, tiny_weights):
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1, average_from=2))
    seen, results = [], []
    with open_engine("in-process"):
        state = round_.start(tiny_weights)
        for _ in range(3):
            state = round_.next(state, [0, 1], [dataset(0), dataset(1)]).state
            seen.append(state.weights)
            results.append(round_.result(state))
    assert largest_difference(results[0], seen[0]) == 0 and largest_difference(results[1], seen[1]) == 0
    by_hand = [(np.asarray(a) + np.asarray(b)) / 2 for a, b in zip(seen[1], seen[2])]
    assert largest_difference(results[2], by_hand) < 1e-6
    assert largest_difference(results[2], seen[2]) > 1e-4
