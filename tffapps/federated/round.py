"""One round of a federation as TFF computations. No maths of any method, no files, no flags.

     server                                    each client
     state ──── weights, memory ── broadcast ► assign to the model
                                               train on its own data, with what it has kept for itself
                                               (method.work, method.gradients)
     aggregator ◄── update, examples ───────── weights now − weights then, if finite, and what the method sends
     rows ◄──────── gathered ───────────────── what the method's server wants from each client, not as a mean
     server optimiser on the trained weights,
     plain mean for statistics (both damped where the server's own model counts),
     server step on its own data (method.server_step), where the task has such data
     memory (method.next_memory), where the method has any
     mean of the weights over rounds, where the method asks for it
     state ◄──
     reports ◄───── (client, ok, examples, loss, …)
                                               what it keeps for the next round: what it was, if it was left out

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

from tffapps.errors import UserError
from tffapps.federated import computations
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.aggregator import build_aggregator
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

    With a server step there is one more argument, `server_data`. Where clients keep something there is a last one,
    `kept`, with a list of arrays for each, and a fourth result, the same after the round.
    """

    layout: WeightsLayout
    aggregation: Aggregation
    columns: tuple[str, ...]  # of the reports
    next: tff.Computation
    _first_state: tff.Computation
    _first_memory: Callable[[Sequence[np.ndarray], int], list[np.ndarray]]
    _first_kept: Callable[[Sequence[np.ndarray], int], list[np.ndarray]]
    keeps: bool = False
    sends_weights: bool = True
    memory_bytes: int = 0
    sent_bytes: int = 0  # beside the update, gathered or not
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

    def first_kept(self, weights: Sequence[np.ndarray], seed: int = 0) -> list[np.ndarray]:
        """What a client has before its first round, its own model first where weights are not sent."""
        own = [] if self.sends_weights else [np.asarray(value) for value in weights]
        return [*own, *self._first_kept(weights, seed)]

    def bytes_down(self, clients: int) -> int:
        return clients * (self._moved().byte_count() + self.memory_bytes)

    def bytes_up(self, clients: int) -> int:
        return clients * (self.aggregation.bytes_up(self._moved()) + self.sent_bytes + 4 * len(self.columns))

    def _moved(self) -> WeightsLayout:
        return self.layout if self.sends_weights else WeightsLayout.empty()


def build_round(task: Task, method: Method, aggregation: Aggregation | None = None, clients: int = 1) -> Round:
    """Traces the computations of a round. `clients`, the most that will take part, matters to the dp aggregator and to
    methods that remember something of each client.
    """
    aggregation, task = aggregation or Aggregation(), dataclasses.replace(task, clients=clients)
    layout = WeightsLayout.of(task.model)
    moved = layout if method.sends_weights else WeightsLayout.empty()
    weights_type = tff.to_type(layout.types())
    first_memory, first_kept = (functools.partial(first, task) for first in (method.first_memory, method.first_kept))
    specs = _specs(task, method, layout)
    if specs.gathered and aggregation.aggregator == "dp":
        raise UserError(
            f"--aggregator dp: it does not cover what {method.name} gathers; choose another aggregator or method"
        )
    work = computations.client_work(task, method, layout, specs)
    server_optimizer = method.server_optimizer()
    aggregator = build_aggregator(aggregation, moved, clients, specs.sent)

    @tff.tensorflow.computation
    def first_optimizer_state():
        return server_optimizer.initialize(moved.trained(moved.specs()))

    @tff.federated_computation
    def first_state():
        optimizer = tff.federated_eval(first_optimizer_state, tff.SERVER)
        return tff.federated_zip((optimizer, aggregator.initialize()))

    optimizer_type = first_optimizer_state.type_signature.result
    server_update = (
        computations.server_update(method, layout, server_optimizer, optimizer_type, specs)
        if method.sends_weights
        else None
    )
    columns = (*REPORT_COLUMNS, *method.report_columns(task))
    averaging = method.average_from > 0
    parts = (weights_type, optimizer_type, aggregator.initialize.type_signature.result.member, data_type(specs.memory))
    state_type = tff.to_type(AveragingState(*parts, np.int32, weights_type) if averaging else State(*parts))
    update_mean = computations.mean_over_rounds(method, weights_type) if averaging else None
    next_memory = computations.next_memory(task, method, specs) if specs.memory else None
    arguments = {
        "state": tff.FederatedType(state_type, tff.SERVER),
        "positions": tff.FederatedType(np.int32, tff.CLIENTS),
        "data": tff.FederatedType(data_type(task.client_spec), tff.CLIENTS),
    }
    server_step = None
    if task.server_spec is not None:
        arguments["server_data"] = tff.FederatedType(data_type(task.server_spec), tff.SERVER)
        server_step = computations.server_step(task, method, specs)
    if specs.kept:
        arguments["kept"] = tff.FederatedType(data_type(specs.kept), tff.CLIENTS)

    def play(state, positions, data, server_data=None, kept=None):
        down = tff.federated_broadcast(state.weights) if method.sends_weights else tff.federated_value([], tff.CLIENTS)
        told = (down, tff.federated_broadcast(state.memory), positions, data, *([] if kept is None else [kept]))
        result = tff.federated_map(work, told)
        combined = aggregator.next(state.aggregator, result.update, result.weight)
        weights, optimizer, memory = state.weights, state.optimizer, state.memory
        if server_update is not None:
            examples = tff.federated_sum(result.weight)
            weights, optimizer = tff.federated_map(server_update, (weights, optimizer, combined.result, examples))
        received = combined.result.sent
        if specs.gathered:
            rows = [computations.gather(result.gathered[place], spec) for place, spec in enumerate(specs.gathered)]
            received = tff.federated_zip([*(received[place] for place in range(len(specs.sent))), *rows])
        if server_step is not None:
            weights, memory = tff.federated_map(server_step, (weights, server_data, memory, received))
        if next_memory is not None:
            memory = tff.federated_map(next_memory, (memory, received, state.weights, weights))
        new_state: AnyState = State(weights, optimizer, combined.state, memory)
        if update_mean is not None:
            number, mean = tff.federated_map(update_mean, (state.number, state.mean, weights))
            new_state = AveragingState(weights, optimizer, combined.state, memory, number, mean)
        reports = computations.gather(result.report, tf.TensorSpec([len(columns)], tf.float32))
        results = tff.federated_zip(new_state), reports, combined.measurements
        return results if kept is None else (*results, result.kept)

    @tff.federated_computation(tff.StructType(list(arguments.items())))
    def next_round(given):
        return play(**{name: getattr(given, name) for name in arguments})

    sizes = byte_count(specs.memory), byte_count([*specs.sent, *specs.gathered])
    firsts = first_state, first_memory, first_kept
    flags = bool(specs.kept), method.sends_weights
    return Round(layout, aggregation, columns, next_round, *firsts, *flags, *sizes, averaging)


def _specs(task: Task, method: Method, layout: WeightsLayout) -> computations.Specs:
    weights = task.model.get_weights()
    memory, kept = (
        [tf.TensorSpec(np.shape(value), value.dtype) for value in first(task, weights, 0)]
        for first in (method.first_memory, method.first_kept)
    )
    own = [] if method.sends_weights else layout.specs()
    sent, gathered = method.sent_specs(task), method.gathered_specs(task)
    return computations.Specs(layout.specs(), memory, sent, gathered, [*own, *kept])
