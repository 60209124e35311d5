"""One round of a federation as TFF computations. No maths of any method, no files, no flags.

     server                                    each client
     state ──────── weights ── broadcast ────► assign to the model
                                               train on its own data (method.work, method.gradients)
     aggregator ◄── update, examples ───────── weights now − weights then, if finite
     server optimiser on the trained weights,
     plain mean for statistics (both damped where the server's own model counts),
     server step on its own data (method.server_work), where the task has such data
     mean of the weights over rounds, where the method asks for it
     state ◄──
     reports ◄───── (client, ok, examples, loss, …)

A round is built once and serves every cohort: separate training is a federation of one client, centralised training
a federation of one client with all the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated.aggregation import Aggregation
from tffapps.federated.aggregator import Update, build_aggregator, update_type
from tffapps.federated.method import Method
from tffapps.federated.portable import PortableFunction
from tffapps.federated.task import Task, WeightsLayout, data_type

REPORT_COLUMNS = ("client", "ok", "examples", "loss")


class State(NamedTuple):
    """What the server carries from round to round."""

    weights: list
    optimizer: Any
    aggregator: Any


class AveragingState(NamedTuple):
    """The same where the result is a mean over rounds (`Method.average_from`)."""

    weights: list
    optimizer: Any
    aggregator: Any
    number: Any  # rounds played
    mean: list  # of the weights after each round from `average_from` on


AnyState = Union[State, AveragingState]


@dataclasses.dataclass(frozen=True)
class Round:
    """`next(state, positions, data)` -> (state, reports, measurements); `positions` number the clients.

    With a server step: `next(state, positions, data, server_data)`.
    """

    layout: WeightsLayout
    aggregation: Aggregation
    columns: tuple[str, ...]  # of the reports
    next: tff.Computation
    _first_state: tff.Computation
    averaging: bool = False

    def start(self, weights: Sequence[np.ndarray]) -> AnyState:
        given = [np.shape(value) for value in weights]
        if given != list(self.layout.shapes):
            raise ValueError("the initial weights do not have the shapes of the model's weights")
        optimizer, aggregator = self._first_state()
        first = [np.asarray(value) for value in weights]
        if self.averaging:
            return AveragingState(first, optimizer, aggregator, np.int32(0), first)
        return State(first, optimizer, aggregator)

    def result(self, state: AnyState) -> list[np.ndarray]:
        """The weights to be judged and used."""
        return list(state.mean if isinstance(state, AveragingState) else state.weights)

    def bytes_down(self, clients: int) -> int:
        return clients * self.layout.byte_count()

    def bytes_up(self, clients: int) -> int:
        return clients * (self.aggregation.bytes_up(self.layout) + 4 * len(self.columns))


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

    @tff.tensorflow.computation(weights_type, optimizer_type, update_type(layout), np.float32)
    def server_update(weights, optimizer_state, update, examples):
        if method.server_examples:
            # The server's own model is one more client of the mean, whose update is zero.
            share = tf.math.divide_no_nan(examples, examples + method.server_examples)
            update = Update(*([share * value for value in part] for part in update))
        pseudo_gradient = [-value for value in update.trained]
        optimizer_state, trained = server_optimizer.next(optimizer_state, layout.trained(weights), pseudo_gradient)
        statistics = [weight + value for weight, value in zip(layout.statistics(weights), update.statistics)]
        # Noise and rounding can take a variance below zero, and its square root with it.
        is_variance = layout.statistics(layout.variance)
        statistics = [tf.nn.relu(value) if flag else value for value, flag in zip(statistics, is_variance)]
        return layout.joined(trained, statistics), optimizer_state

    columns = (*REPORT_COLUMNS, *method.report_columns(task))
    averaging = method.average_from > 0
    parts = (weights_type, optimizer_type, aggregator.initialize.type_signature.result.member)
    state_type = tff.to_type(AveragingState(*parts, np.int32, weights_type) if averaging else State(*parts))
    update_mean = _mean_over_rounds(method, weights_type) if averaging else None
    arguments = [
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(np.int32, tff.CLIENTS),
        tff.FederatedType(data_type(task.client_spec), tff.CLIENTS),
    ]
    server_step = None
    if task.server_spec is not None:
        arguments.append(tff.FederatedType(data_type(task.server_spec), tff.SERVER))
        server_step = _server_step(task, method, layout, weights_type)

    def play(state, positions, data, server_data=None):
        at_clients = tff.federated_broadcast(state.weights)
        result = tff.federated_map(client_work, (at_clients, positions, data))
        combined = aggregator.next(state.aggregator, result.update, result.weight)
        examples = tff.federated_sum(result.weight)
        weights, optimizer = tff.federated_map(
            server_update, (state.weights, state.optimizer, combined.result, examples)
        )
        if server_step is not None:
            weights = tff.federated_map(server_step, (weights, server_data))
        new_state: AnyState = State(weights, optimizer, combined.state)
        if update_mean is not None:
            number, mean = tff.federated_map(update_mean, (state.number, state.mean, weights))
            new_state = AveragingState(weights, optimizer, combined.state, number, mean)
        return tff.federated_zip(new_state), _gather(result.report, len(columns)), combined.measurements

    if server_step is None:

        @tff.federated_computation(*arguments)
        def next_round(state, positions, data):
            return play(state, positions, data)
    else:

        @tff.federated_computation(*arguments)
        def next_round(state, positions, data, server_data):
            return play(state, positions, data, server_data)

    return Round(layout, aggregation, columns, next_round, first_state, averaging)


class _ClientResult(NamedTuple):
    update: Update
    weight: Any
    report: Any


def _client_work(task: Task, method: Method, layout: WeightsLayout, weights_type: tff.Type) -> tff.Computation:
    variables = task.model.weights

    def train(weights, position, data):
        for variable, value in zip(variables, weights):
            variable.assign(value)
        done = method.work(task, data, position)
        update = [variable - value for variable, value in zip(variables, weights)]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in update])
        ok = tf.logical_and(finite, done.examples > 0)
        # Zeroed, not multiplied by zero: 0 · NaN is NaN.
        update = [tf.where(ok, value, tf.zeros_like(value)) for value in update]
        numbers = (position, ok, done.examples, done.loss, *done.extras)
        pair = Update(layout.trained(update), layout.statistics(update))
        report = tf.stack([tf.cast(number, tf.float32) for number in numbers])
        return _ClientResult(pair, tf.where(ok, done.examples, 0.0), report)

    portable = PortableFunction(task.model, train, (layout.specs(), tf.TensorSpec([], tf.int32), task.client_spec))

    @tff.tensorflow.computation(weights_type, np.int32, data_type(task.client_spec))
    def work(weights, position, data):
        return portable(list(weights), position, data)

    return work


def _server_step(task: Task, method: Method, layout: WeightsLayout, weights_type: tff.Type) -> tff.Computation:
    variables = task.model.weights

    def train(weights, data):
        for variable, value in zip(variables, weights):
            variable.assign(value)
        method.server_work(task, data)
        return [variable.read_value() for variable in variables]

    portable = PortableFunction(task.model, train, (layout.specs(), task.server_spec))

    @tff.tensorflow.computation(weights_type, data_type(task.server_spec))
    def step(weights, data):
        return portable(list(weights), data)

    return step


def _mean_over_rounds(method: Method, weights_type: tff.Type) -> tff.Computation:
    @tff.tensorflow.computation(np.int32, weights_type, weights_type)
    def update(number, mean, weights):
        number += 1
        count = tf.cast(tf.maximum(number - method.average_from + 1, 1), tf.float32)
        return number, [old + (new - old) / tf.cast(count, new.dtype) for old, new in zip(mean, weights)]

    return update


def _gather(report: tff.Value, columns: int) -> tff.Value:
    """Every client's report as one row of a server-placed table: who took part must be known, in any engine."""
    row = tff.TensorType(np.float32, [columns])
    rows = tff.TensorType(np.float32, [None, columns])

    @tff.tensorflow.computation
    def none_yet():
        return tf.zeros([0, columns])

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
