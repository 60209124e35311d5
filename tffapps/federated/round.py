"""One round of a federation as TFF computations. No maths of any method, no files, no flags.

     server                                    each client
     state ──── weights, memory ── broadcast ► assign to the model
                                               train on its own data (method.work, method.gradients)
     aggregator ◄── update, examples ───────── weights now − weights then, if finite, and what the method sends
     server optimiser on the trained weights,
     plain mean for statistics (both damped where the server's own model counts),
     server step on its own data (method.server_work), where the task has such data
     memory (method.next_memory), where the method has any
     mean of the weights over rounds, where the method asks for it
     state ◄──
     reports ◄───── (client, ok, examples, loss, …)

A round is built once and serves every cohort: separate training is a federation of one client, centralised training
a federation of one client with all the data.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated import computations
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.aggregator import build_aggregator, update_type
from tffapps.federated.method import Method
from tffapps.federated.task import Task, WeightsLayout, byte_count, data_type

REPORT_COLUMNS = ("client", "ok", "examples", "loss")


class State(NamedTuple):
    """What the server carries from round to round."""

    weights: list
    optimizer: Any
    aggregator: Any
    memory: list  # of the method; mostly empty


class AveragingState(NamedTuple):
    """The same where the result is a mean over rounds (`Method.average_from`)."""

    weights: list
    optimizer: Any
    aggregator: Any
    memory: list
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
    _first_memory: Callable[[Sequence[np.ndarray], int], list[np.ndarray]]
    memory_bytes: int = 0
    sent_bytes: int = 0
    averaging: bool = False

    def start(self, weights: Sequence[np.ndarray], seed: int = 0) -> AnyState:
        given = [np.shape(value) for value in weights]
        if given != list(self.layout.shapes):
            raise ValueError("the initial weights do not have the shapes of the model's weights")
        optimizer, aggregator = self._first_state()
        first = [np.asarray(value) for value in weights]
        parts = (first, optimizer, aggregator, self._first_memory(first, seed))
        return AveragingState(*parts, np.int32(0), first) if self.averaging else State(*parts)

    def result(self, state: AnyState) -> list[np.ndarray]:
        """The weights to be judged and used."""
        return list(state.mean if isinstance(state, AveragingState) else state.weights)

    def bytes_down(self, clients: int) -> int:
        return clients * (self.layout.byte_count() + self.memory_bytes)

    def bytes_up(self, clients: int) -> int:
        return clients * (self.aggregation.bytes_up(self.layout) + self.sent_bytes + 4 * len(self.columns))


def build_round(task: Task, method: Method, aggregation: Aggregation | None = None, clients: int = 1) -> Round:
    """Traces the computations of a round. `clients` matters to the dp aggregator only."""
    aggregation = aggregation or Aggregation()
    layout = WeightsLayout.of(task.model)
    weights_type = tff.to_type(layout.types())
    first_memory = functools.partial(method.first_memory, task)
    memory_specs = [tf.TensorSpec(value.shape, value.dtype) for value in first_memory(task.model.get_weights(), 0)]
    sent_specs = method.sent_specs(task)
    work = computations.client_work(task, method, layout, weights_type, memory_specs)
    server_optimizer = method.server_optimizer()
    aggregator = build_aggregator(aggregation, layout, clients, sent_specs)

    @tff.tensorflow.computation
    def first_optimizer_state():
        specs = [tf.TensorSpec(kind.shape, kind.dtype) for kind in layout.trained(layout.types())]
        return server_optimizer.initialize(specs)

    @tff.federated_computation
    def first_state():
        optimizer = tff.federated_eval(first_optimizer_state, tff.SERVER)
        return tff.federated_zip((optimizer, aggregator.initialize()))

    optimizer_type = first_optimizer_state.type_signature.result

    @tff.tensorflow.computation(weights_type, optimizer_type, update_type(layout, sent_specs), np.float32)
    def server_update(weights, optimizer_state, update, examples):
        trained, statistics = update.trained, update.statistics
        if method.server_examples:
            # The server's own model is one more client of the mean, whose update is zero.
            share = tf.math.divide_no_nan(examples, examples + method.server_examples)
            trained, statistics = ([share * value for value in part] for part in (trained, statistics))
        pseudo_gradient = [-value for value in trained]
        optimizer_state, trained = server_optimizer.next(optimizer_state, layout.trained(weights), pseudo_gradient)
        statistics = [weight + value for weight, value in zip(layout.statistics(weights), statistics)]
        # Noise and rounding can take a variance below zero, and its square root with it.
        is_variance = layout.statistics(layout.variance)
        statistics = [tf.nn.relu(value) if flag else value for value, flag in zip(statistics, is_variance)]
        return layout.joined(trained, statistics), optimizer_state

    columns = (*REPORT_COLUMNS, *method.report_columns(task))
    averaging = method.average_from > 0
    parts = (weights_type, optimizer_type, aggregator.initialize.type_signature.result.member, data_type(memory_specs))
    state_type = tff.to_type(AveragingState(*parts, np.int32, weights_type) if averaging else State(*parts))
    update_mean = computations.mean_over_rounds(method, weights_type) if averaging else None
    next_memory = (
        computations.next_memory(task, method, weights_type, memory_specs, sent_specs) if memory_specs else None
    )
    arguments = [
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(np.int32, tff.CLIENTS),
        tff.FederatedType(data_type(task.client_spec), tff.CLIENTS),
    ]
    server_step = None
    if task.server_spec is not None:
        arguments.append(tff.FederatedType(data_type(task.server_spec), tff.SERVER))
        server_step = computations.server_step(task, method, layout, weights_type)

    def play(state, positions, data, server_data=None):
        at_clients = tff.federated_broadcast(state.weights), tff.federated_broadcast(state.memory)
        result = tff.federated_map(work, (*at_clients, positions, data))
        combined = aggregator.next(state.aggregator, result.update, result.weight)
        examples = tff.federated_sum(result.weight)
        weights, optimizer = tff.federated_map(
            server_update, (state.weights, state.optimizer, combined.result, examples)
        )
        if server_step is not None:
            weights = tff.federated_map(server_step, (weights, server_data))
        memory = state.memory
        if next_memory is not None:
            memory = tff.federated_map(next_memory, (memory, combined.result.sent, state.weights, weights))
        new_state: AnyState = State(weights, optimizer, combined.state, memory)
        if update_mean is not None:
            number, mean = tff.federated_map(update_mean, (state.number, state.mean, weights))
            new_state = AveragingState(weights, optimizer, combined.state, memory, number, mean)
        return tff.federated_zip(new_state), computations.gather(result.report, len(columns)), combined.measurements

    if server_step is None:

        @tff.federated_computation(*arguments)
        def next_round(state, positions, data):
            return play(state, positions, data)
    else:

        @tff.federated_computation(*arguments)
        def next_round(state, positions, data, server_data):
            return play(state, positions, data, server_data)

    sizes = byte_count(memory_specs), byte_count(sent_specs)
    return Round(layout, aggregation, columns, next_round, first_state, first_memory, *sizes, averaging)
