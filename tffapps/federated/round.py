"""One round of a federation as TFF computations. No maths of any method, no files, no flags.

     server                                    each client
     state ──────── weights ── broadcast ────► assign to the model
                                               train on its own batches (method.gradients)
     aggregator ◄── update, examples ───────── weights now − weights then, if finite
     server optimiser on the trained weights,
     plain mean for statistics
     state ◄──
     reports ◄───── (client, ok, examples, loss)

A round is built once and serves every cohort: separate training is a federation of one client, centralised training
a federation of one client with all the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated import local
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.aggregator import Update, build_aggregator, update_type
from tffapps.federated.method import Method
from tffapps.federated.portable import PortableFunction
from tffapps.federated.task import Task, WeightsLayout

REPORT_COLUMNS = ("client", "ok", "examples", "loss")


class State(NamedTuple):
    """What the server carries from round to round."""

    weights: list
    optimizer: Any
    aggregator: Any


@dataclasses.dataclass(frozen=True)
class Round:
    """`next(state, positions, datasets)` -> (state, reports, measurements); `positions` number the clients."""

    layout: WeightsLayout
    aggregation: Aggregation
    next: tff.Computation
    _first_state: tff.Computation

    def start(self, weights: Sequence[np.ndarray]) -> State:
        given = [np.shape(value) for value in weights]
        if given != list(self.layout.shapes):
            raise ValueError("the initial weights do not have the shapes of the model's weights")
        optimizer, aggregator = self._first_state()
        return State([np.asarray(value) for value in weights], optimizer, aggregator)

    def bytes_down(self, clients: int) -> int:
        return clients * self.layout.byte_count()

    def bytes_up(self, clients: int) -> int:
        return clients * (self.aggregation.bytes_up(self.layout) + 4 * len(REPORT_COLUMNS))


def build_round(task: Task, method: Method, aggregation: Aggregation | None = None, clients: int = 1) -> Round:
    """Traces the computations of a round. `clients` matters to the dp aggregator only."""
    aggregation = aggregation or Aggregation()
    layout = WeightsLayout.of(task.model)
    weights_type = tff.to_type(layout.types())
    client_work = _client_work(task, method, layout, weights_type)
    server_optimizer = method.server_optimizer()
    aggregator = build_aggregator(aggregation, layout, clients)

    @tff.tensorflow.computation
    def first_optimizer_state():
        specs = [tf.TensorSpec(kind.shape, kind.dtype) for kind in layout.trained(layout.types())]
        return server_optimizer.initialize(specs)

    @tff.federated_computation
    def first_state():
        optimizer = tff.federated_eval(first_optimizer_state, tff.SERVER)
        return tff.federated_zip((optimizer, aggregator.initialize()))

    optimizer_type = first_optimizer_state.type_signature.result

    @tff.tensorflow.computation(weights_type, optimizer_type, update_type(layout))
    def server_update(weights, optimizer_state, update):
        pseudo_gradient = [-value for value in update.trained]
        optimizer_state, trained = server_optimizer.next(optimizer_state, layout.trained(weights), pseudo_gradient)
        statistics = [weight + value for weight, value in zip(layout.statistics(weights), update.statistics)]
        return layout.joined(trained, statistics), optimizer_state

    state_type = tff.to_type(State(weights_type, optimizer_type, aggregator.initialize.type_signature.result.member))

    @tff.federated_computation(
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(np.int32, tff.CLIENTS),
        tff.FederatedType(task.batch_type(), tff.CLIENTS),
    )
    def next_round(state, positions, datasets):
        at_clients = tff.federated_broadcast(state.weights)
        result = tff.federated_map(client_work, (at_clients, positions, datasets))
        combined = aggregator.next(state.aggregator, result.update, result.weight)
        weights, optimizer = tff.federated_map(server_update, (state.weights, state.optimizer, combined.result))
        new_state = tff.federated_zip(State(weights, optimizer, combined.state))
        return new_state, _gather(result.report), combined.measurements

    return Round(layout, aggregation, next_round, first_state)


class _ClientResult(NamedTuple):
    update: Update
    weight: Any
    report: Any


def _client_work(task: Task, method: Method, layout: WeightsLayout, weights_type: tff.Type) -> tff.Computation:
    variables = task.model.weights

    def train(weights, position, batches):
        for variable, value in zip(variables, weights):
            variable.assign(value)
        examples, loss = local.train(task.model, batches, task.loss, method.client_optimizer(), method.gradients)
        update = [variable - value for variable, value in zip(variables, weights)]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in update])
        ok = tf.logical_and(finite, examples > 0)
        # Zeroed, not multiplied by zero: 0 · NaN is NaN.
        update = [tf.where(ok, value, tf.zeros_like(value)) for value in update]
        report = tf.stack([tf.cast(position, tf.float32), tf.cast(ok, tf.float32), examples, loss])
        pair = Update(layout.trained(update), layout.statistics(update))
        return _ClientResult(pair, tf.where(ok, examples, 0.0), report)

    weight_specs = [tf.TensorSpec(shape, dtype) for shape, dtype in zip(layout.shapes, layout.dtypes)]
    specs = (weight_specs, tf.TensorSpec([], tf.int32), tf.data.DatasetSpec(task.element_spec))
    portable = PortableFunction(task.model, train, specs)

    @tff.tensorflow.computation(weights_type, np.int32, task.batch_type())
    def work(weights, position, batches):
        return portable(list(weights), position, batches)

    return work


def _gather(report: tff.Value) -> tff.Value:
    """Every client's report as one row of a server-placed table: who took part must be known, in any engine."""
    row = tff.TensorType(np.float32, [len(REPORT_COLUMNS)])
    rows = tff.TensorType(np.float32, [None, len(REPORT_COLUMNS)])

    @tff.tensorflow.computation
    def none_yet():
        return tf.zeros([0, len(REPORT_COLUMNS)])

    @tff.tensorflow.computation(rows, row)
    def append(table, one):
        return tf.concat([table, one[tf.newaxis]], axis=0)

    @tff.tensorflow.computation(rows, rows)
    def join(table, other):
        return tf.concat([table, other], axis=0)

    @tff.tensorflow.computation(rows)
    def same(table):
        return table

    return tff.federated_aggregate(report, none_yet(), append, join, same)
