"""A client's part of a pass as one call: the numbers of the calls one by one, bit by bit."""

import contextlib
import importlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conftest import largest_difference
from tffapps.engine import open_engine
from tffapps.engine.graph_function import GraphFunction
from tffapps.engine.in_process import InProcessContext
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy

SPEC = (tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([None], tf.int32))


@pytest.fixture(scope="module")
def model():
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(0)
    return tf.keras.Sequential(
        [
            layers.Input((3,)),
            layers.Dense(4, activation="tanh"),
            layers.BatchNormalization(),
            layers.Dense(2, "softmax"),
        ]
    )


def data(client):
    rng = np.random.default_rng(client)
    rows = 3 + client
    values, labels = rng.normal(size=(rows, 3)).astype(np.float32), rng.integers(0, 2, rows).astype(np.int32)
    return tf.data.Dataset.from_tensor_slices((values, labels)).batch(2)


def played(model, aggregator, calls, places=()):
    """The state and the reports after two rounds of three clients; the calls of graphs in the second."""
    round_ = build_round(Task.of_batches(model, SPEC, cross_entropy), FedAvg(), Aggregation(aggregator))
    context = InProcessContext(devices=places)
    with contextlib.closing(context), tff.framework.get_context_stack().install(context):
        state = round_.start([np.full(weight.shape, 0.1, np.float32) for weight in model.get_weights()])
        for _ in range(2):
            calls.clear()
            state, reports, *_ = round_.next(state, [0, 1, 2], [data(client) for client in range(3)])
    return [*state.weights, reports]


@pytest.mark.parametrize(
    ("aggregator", "places", "without"),
    [("mean", (), "one_call"), ("secure", (), "one_call"), ("mean", ("/device:CPU:0",) * 2, "fold_call")],
)
def test_one_call_gives_the_numbers_of_many(model, aggregator, places, without, monkeypatch):
    calls, call = [], GraphFunction.__call__
    monkeypatch.setattr(GraphFunction, "__call__", lambda self, tensors: (calls.append(self), call(self, tensors))[1])
    together = played(model, aggregator, calls, places)
    few = len(calls)  # the server's
    monkeypatch.setattr(InProcessContext, without, lambda *_: None)
    apart = played(model, aggregator, calls, places)
    assert len(calls) >= few + 3 * 3  # each of the clients' again and again
    assert largest_difference(together, apart) == 0


def test_a_round_is_traced_without_rewriting_sources_and_gives_variables_no_initial_values(model, monkeypatch):
    def refuse(function, *_):
        raise AssertionError(f"AutoGraph rewrites {function}")

    monkeypatch.setattr(importlib.import_module("tensorflow.python.autograph.impl.api"), "_convert_actual", refuse)
    round_ = build_round(Task.of_batches(model, SPEC, cross_entropy), FedAvg(optimizer="adam"))
    graphs = tff.framework.serialize_computation(round_.computation).SerializeToString()
    assert b"scratch" not in graphs and b"portable" in graphs and b"VarIsInitializedOp" not in graphs


def test_what_the_server_sends_is_of_this_round_and_not_of_the_first():

    @tff.tensorflow.computation(np.float32, np.float32)
    def product(value, factor):
        return value * factor

    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS), tff.FederatedType(np.float32, tff.SERVER))
    def scaled_sum(values, factor):
        return tff.federated_sum(tff.federated_map(product, (values, tff.federated_broadcast(factor))))

    with open_engine("in-process"):
        assert [scaled_sum([1.0, 2.0], factor) for factor in (10.0, 20.0)] == [30.0, 60.0]
