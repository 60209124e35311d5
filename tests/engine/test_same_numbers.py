"""Both engines give the same numbers: tff.learning's own processes on each."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import arrays, largest_difference
from tffapps.engine import open_engine

SPEC = collections.OrderedDict(x=tf.TensorSpec([None, 8, 8, 3], tf.float32), y=tf.TensorSpec([None], tf.int32))


def model():
    keras_model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((8, 8, 3)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(120, activation="relu", kernel_initializer="zeros"),
            tf.keras.layers.Dense(3, kernel_initializer="zeros", bias_initializer="zeros"),
        ]
    )
    return tff.learning.models.from_keras_model(
        keras_model, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), input_spec=SPEC
    )


def sgd():
    return tff.learning.optimizers.build_sgdm(0.1)


def no_noise(value: int):
    return tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(0.0, value, 1.0)


PROCESSES = {
    "fedavg": lambda: tff.learning.algorithms.build_weighted_fed_avg(model, sgd()),
    "fedprox": lambda: tff.learning.algorithms.build_weighted_fed_prox(model, 0.5, sgd()),
    "robust": lambda: tff.learning.algorithms.build_weighted_fed_avg(
        model, sgd(), model_aggregator=tff.learning.robust_aggregator()
    ),
    "dp without noise": lambda: tff.learning.algorithms.build_unweighted_fed_avg(
        model, sgd(), model_aggregator=no_noise(2)
    ),
    "secure": lambda: tff.learning.algorithms.build_weighted_fed_avg(
        model, sgd(), model_aggregator=tff.learning.secure_aggregator()
    ),
    "compressed": lambda: tff.learning.algorithms.build_weighted_fed_avg(
        model, sgd(), model_aggregator=tff.learning.compression_aggregator()
    ),
}


def client(number: int):
    images, labels = arrays(number)
    return tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=images, y=labels)).batch(8)


@pytest.mark.parametrize("name", PROCESSES)
def test_tff_learning_processes_agree(name):
    process = PROCESSES[name]()
    weights, metrics = {}, {}
    for engine in ("in-process", "worker"):
        with open_engine(engine):
            state = process.initialize()
            for _ in range(2):
                output = process.next(state, [client(0), client(1)])
                state = output.state
            weights[engine] = process.get_model_weights(state).trainable
        metrics[engine] = output.metrics["client_work"]["train"]
    assert largest_difference(weights["in-process"], weights["worker"]) < 1e-5
    assert np.abs(weights["in-process"][-1]).max() > 1e-3  # something was learned
    assert metrics["in-process"]["num_examples"] == metrics["worker"]["num_examples"] == 48
    assert metrics["in-process"]["loss"] == pytest.approx(metrics["worker"]["loss"], abs=1e-5)
