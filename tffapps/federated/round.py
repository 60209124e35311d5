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

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from models.names import FLOAT32
from models.precision import precision_of
from tffapps.errors import UserError
from tffapps.federated import computations, record_noise, scaling, summed
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.aggregator import build_aggregator
from tffapps.federated.method import Method
from tffapps.federated.rows import gather
from tffapps.federated.task import Task, WeightsLayout, byte_count, data_type

REPORT_COLUMNS = ("client", "ok", "examples", "loss")


class State(NamedTuple):
    """What the server carries from round to round."""

    weights: list[Any]
    optimizer: Any
    aggregator: Any
    memory: list[Any]  # of the method; mostly empty


class AveragingState(NamedTuple):
    """The same where the result is a mean over rounds (`Method.average_from`)."""

    weights: list[Any]
    optimizer: Any
    aggregator: Any
    memory: list[Any]
    number: Any  # rounds played
    mean: list[Any]  # of the weights after each round from `average_from` on


AnyState = State | AveragingState


class RoundResult(NamedTuple):
    """What a round gives."""

    state: AnyState
    reports: np.ndarray  # float32 (clients, columns)
    measurements: Any  # the aggregator's
    kept: Sequence[Any] = ()  # of each client, in their order: its arrays, or a `Deferred` of them


@dataclasses.dataclass(frozen=True)
class Round:
    """A round that can be played again and again, by any number of clients; `build_round` makes it."""

    task: Task
    method: Method
    aggregation: Aggregation
    layout: WeightsLayout
    specs: computations.Specs
    computation: tff.Computation  # what `next` calls
    first_state: tff.Computation  # gives the states of the server's optimiser and of the aggregator
    summed: bool = False  # by the sites themselves: the aggregation is done before the server sees anything

    @property
    def columns(self) -> tuple[str, ...]:
        """Of the reports."""
        return _columns(self.task, self.method)

    @property
    def withholds_loss(self) -> bool:
        return withholds_loss(self.method, self.aggregation)

    def next(
        self,
        state: AnyState,
        positions: Sequence[Any],
        data: Sequence[Any],
        server_data: Any = None,
        kept: Sequence[Any] | None = None,
    ) -> RoundResult:
        """Plays the round on the engine that is open.

        Args:
          state: the server's, from `start` or from the round before.
          positions: the numbers of the clients that take part, which their reports carry.
          data: of each of them, as the task's `client_spec` says.
          server_data: the server's own, where the task has a server step.
          kept: of each client, what it kept after its last round (`first_kept` before), where clients keep anything.
        """
        arguments = {"state": state, "positions": positions, "data": data}
        if self.task.server_spec is not None:
            arguments["server_data"] = server_data
        if self.specs.kept:
            if kept is None:
                raise ValueError("the clients of this round keep something: say what (kept)")
            arguments["kept"] = kept
        return RoundResult(**self.computation(**arguments))

    def start(self, weights: Sequence[np.ndarray], seed: int = 0) -> AnyState:
        """The state before the first round, from the weights of the global model; `seed` is for the method."""
        if [np.shape(value) for value in weights] != list(self.layout.shapes):
            raise ValueError("the initial weights do not have the shapes of the model's weights")
        optimizer, aggregator = self.first_state()
        first = [np.asarray(value) for value in weights]
        state = State(first, optimizer, aggregator, self.method.first_memory(self.task, first, seed))
        if not self.method.average_from:
            return state
        return AveragingState(**state._asdict(), number=np.int32(0), mean=first)

    def result(self, state: AnyState) -> list[np.ndarray]:
        """The weights to be judged and used."""
        return list(state.mean if isinstance(state, AveragingState) else state.weights)

    def first_kept(self, weights: Sequence[np.ndarray], seed: int = 0) -> list[np.ndarray]:
        """What a client has before its first round, its own model first where weights are not sent."""
        model = [] if self.method.sends_weights else [np.asarray(value) for value in weights]
        return [*model, *self.method.first_kept(self.task, weights, seed)]

    def own_model(self, state: AnyState, kept: Sequence[np.ndarray] | None) -> list[np.ndarray] | None:
        """A client's model of its own, of what it keeps; None if it has none."""
        if self.method.personal:
            return self.method.own_model(self.task, self.result(state), kept) if kept else None
        return None if kept is None or self.method.sends_weights else list(kept[: len(self.layout.shapes)])

    def bytes_down(self, clients: int) -> int:
        return clients * (self._moved().byte_count() + byte_count(self.specs.memory))

    def bytes_up(self, clients: int) -> int:
        if self.summed:
            numbers = sum(spec.shape.num_elements() for spec in [*self._moved().specs(), *self.specs.sent])
            return clients * summed.bytes_up(self.aggregation, numbers)
        sent = byte_count([*self.specs.sent, *self.specs.gathered])
        return clients * (self.aggregation.bytes_up(self._moved()) + sent + 4 * len(self.columns))

    def bytes_state(self, newcomers: int) -> int:
        """What crosses of that which clients keep: what those who play their first round begin with, and nothing more.

        It is in none of the above.
        """
        return newcomers * byte_count(self.specs.kept)

    def _moved(self) -> WeightsLayout:
        if not self.method.sends_weights:
            return WeightsLayout.empty()
        return self.layout.without(self.method.personal_part(self.task))


def withholds_loss(method: Method, aggregation: Aggregation) -> bool:
    """Whether clients do not say what their loss is: it is made of their images, and no noise would hide it."""
    return aggregation.aggregator == "dp" or method.record_dp > 0


def build_round(
    task: Task, method: Method, aggregation: Aggregation | None = None, clients: int = 1, across_sites: bool = False
) -> Round:
    """Traces the computations of a round.

    Args:
      task: what is learned.
      method: how, at the clients and at the server.
      aggregation: how updates become one; the weighted mean if it is not given.
      clients: the most that will take part; matters to the dp aggregator and to methods that remember each of them.
      across_sites: whether it is played by sites, which clip, noise and mask updates themselves (`summed`).
    """
    aggregation, task = aggregation or Aggregation(), dataclasses.replace(task, clients=clients)
    if method.record_dp:
        record_noise.check(task, method)
    layout = WeightsLayout.of(task.model)
    moved = layout if method.sends_weights else WeightsLayout.empty()
    specs = _specs(task, method, layout)
    if specs.gathered and aggregation.aggregator == "dp":
        raise UserError(
            f"--aggregator dp: it does not cover what {method.name} gathers; choose another aggregator or method"
        )
    if aggregation.aggregator in method.refused_aggregators:
        why = method.refused_aggregators[aggregation.aggregator]
        raise UserError(
            f"--aggregator {aggregation.aggregator}: not with {method.name}, {why}; choose another of the two"
        )
    if method.record_dp and precision_of(task.model) != FLOAT32:
        raise UserError("--precision: not with --record-dp, whose bounds are worked out in float32; leave one out")
    if not method.scales_loss and scaling.columns(task.model):
        raise UserError(f"--precision float16: {method.name} does not scale its loss, which needs it; use bfloat16")
    aggregation.check(clients, method.name, bool(specs.sent or specs.gathered))
    sums = across_sites and summed.applies(aggregation)
    if sums:
        summed.check(aggregation, method, task, specs, clients)
    work = computations.client_work(task, method, layout, specs, not withholds_loss(method, aggregation))
    server_optimizer = method.server_optimizer()
    aggregator = build_aggregator(aggregation.of_sums() if sums else aggregation, moved, clients, specs.sent)

    @tff.tensorflow.computation
    def first_optimizer_state() -> Any:
        return server_optimizer.initialize(moved.trained(moved.specs()))

    @tff.federated_computation
    def first_state() -> Any:
        optimizer = tff.federated_eval(first_optimizer_state, tff.SERVER)
        return tff.federated_zip((optimizer, aggregator.initialize()))

    optimizer_type = first_optimizer_state.type_signature.result
    aggregator_type = aggregator.initialize.type_signature.result.member
    state_type = _state_type(method, layout, specs, optimizer_type, aggregator_type)
    server_update = (
        computations.server_update(method, layout, server_optimizer, optimizer_type, specs)
        if method.sends_weights
        else None
    )
    update_mean = computations.mean_over_rounds(method, state_type.weights) if method.average_from else None
    next_memory = computations.next_memory(task, method, specs) if specs.memory else None
    server_step = computations.server_step(task, method, specs) if task.server_spec is not None else None
    arguments = [
        ("state", tff.FederatedType(state_type, tff.SERVER)),
        ("positions", tff.FederatedType(np.int32, tff.CLIENTS)),
        ("data", tff.FederatedType(data_type(task.client_spec), tff.CLIENTS)),
    ]
    if server_step is not None:
        arguments.append(("server_data", tff.FederatedType(data_type(task.server_spec), tff.SERVER)))
    if specs.kept:
        arguments.append(("kept", tff.FederatedType(data_type(specs.kept), tff.CLIENTS)))

    @tff.federated_computation(tff.StructType(arguments))
    def next_round(given: Any) -> Any:
        state = given.state
        down = tff.federated_broadcast(state.weights) if method.sends_weights else tff.federated_value([], tff.CLIENTS)
        told = [down, tff.federated_broadcast(state.memory), given.positions, given.data]
        done = tff.federated_map(work, (*told, given.kept) if specs.kept else tuple(told))
        combined = aggregator.next(state.aggregator, done.update, done.weight)
        weights, optimizer, memory = state.weights, state.optimizer, state.memory
        if server_update is not None:
            examples = tff.federated_sum(done.weight)
            weights, optimizer = tff.federated_map(server_update, (weights, optimizer, combined.result, examples))
        received = combined.result.sent
        if specs.gathered:
            rows = [gather(done.gathered[index], spec) for index, spec in enumerate(specs.gathered)]
            received = tff.federated_zip([*(received[index] for index in range(len(specs.sent))), *rows])
        if server_step is not None:
            weights, memory = tff.federated_map(server_step, (weights, given.server_data, memory, received))
        if next_memory is not None:
            memory = tff.federated_map(next_memory, (memory, received, state.weights, weights))
        new_state: AnyState = State(weights, optimizer, combined.state, memory)
        if update_mean is not None:
            number, mean = tff.federated_map(update_mean, (state.number, state.mean, weights))
            new_state = AveragingState(weights, optimizer, combined.state, memory, number, mean)
        row = tf.TensorSpec([len(_columns(task, method))], tf.float32)
        result = collections.OrderedDict(
            state=tff.federated_zip(new_state),
            reports=gather(done.report, row),
            measurements=combined.measurements,
        )
        if specs.kept:
            result["kept"] = done.kept
        return result

    return Round(
        task=task, method=method, aggregation=aggregation, layout=layout, specs=specs, computation=next_round,
        first_state=first_state, summed=sums,
    )  # fmt: skip


def _columns(task: Task, method: Method) -> tuple[str, ...]:
    return (*REPORT_COLUMNS, *method.report_columns(task), *scaling.columns(task.model))


def _state_type(
    method: Method, layout: WeightsLayout, specs: computations.Specs, optimizer: tff.Type, aggregator: tff.Type
) -> tff.Type:
    weights = tff.to_type(layout.types())
    state = State(weights, optimizer, aggregator, data_type(specs.memory))
    if not method.average_from:
        return tff.to_type(state)
    return tff.to_type(AveragingState(**state._asdict(), number=np.int32, mean=weights))


def _specs(task: Task, method: Method, layout: WeightsLayout) -> computations.Specs:
    def of(arrays: Sequence[np.ndarray]) -> list[tf.TensorSpec]:
        return [tf.TensorSpec(np.shape(array), array.dtype) for array in arrays]

    weights = task.model.get_weights()
    return computations.Specs(
        weights=layout.specs(),
        memory=of(method.first_memory(task, weights, 0)),
        sent=method.sent_specs(task),
        gathered=method.gathered_specs(task),
        kept=[*([] if method.sends_weights else layout.specs()), *of(method.first_kept(task, weights, 0))],
    )
