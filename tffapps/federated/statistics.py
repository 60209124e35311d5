"""Re-estimating BatchNorm's statistics: one forward pass over the clients' training data, before a model is judged.

After a round the moving statistics are a mean of the clients' own, each an average over that client's last steps, taken
while its weights were still moving: in early rounds, with few steps or a momentum near 1, they lag far behind the
weights that were averaged. Here the weights stay, and the statistics become those of the clients' data under them:

     server                                     each client that took part in the round
     weights ─────────────────── broadcast ───► assign to the model
                                                its training data through it, in training mode, no gradient
     mean over all images ◄── n, E[x], E[x²] ── for each BatchNorm layer, over its n images
     statistics: E[x], E[x²] − E[x]²
     reports ◄───────────────────────────────── (client, ok, n)

A batch counts by its number of images, and so does a client; a dataset of several epochs gives the mean over them. The
variance is the population's (Keras's fused kernel applies Bessel's correction to what it stores; here it does not).
As in training each layer sees what the layers before it make of the batch by the batch's own statistics, and dropout
acts. BatchNorm that is frozen is in inference mode and keeps what it has. A layer that a model uses at several places
gets the statistics of the last of them.

A client whose data fails, is empty, or gives numbers that are not finite is left out; if nobody is left, the statistics
stay as they are. Under the aggregator "secure" the numbers are added up by a secure sum, like the round's own
statistics; n and who took part are reported in the clear, as in a round, but across sites, where they are summed too.
"dp" is refused: what is sent here is neither clipped nor noised, and its epsilon would not count it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine.judging import judged
from tffapps.engine.summing import Summing
from tffapps.errors import UserError
from tffapps.federated import summed
from tffapps.federated.aggregation import AGAINST_BAD, SECURE_BOUND, Aggregation
from tffapps.federated.cohort import Client, call_without_failing, summed_if, summing_of
from tffapps.federated.judge import Judge
from tffapps.federated.local import Tensors
from tffapps.federated.portable import PortableFunction
from tffapps.federated.round import AnyState, AveragingState
from tffapps.federated.rows import gather
from tffapps.federated.task import Task, WeightsLayout, batch_norms, byte_count, data_type, path_to_images

REPORT_COLUMNS = ("client", "ok", "examples")


class Moments(NamedTuple):
    """Of one layer's input, by channel: float64, so that E[x²] − E[x]² has digits left where a mean is large."""

    mean: Any
    square: Any


class ReestimationResult(NamedTuple):
    weights: list[np.ndarray]
    reports: np.ndarray  # float32 (clients, columns)


@dataclasses.dataclass(frozen=True)
class Reestimation:
    """Can be called again and again, for any number of clients; `build_reestimation` makes it."""

    layout: WeightsLayout
    sent: list[tf.TensorSpec]  # by a client, beside its report
    computation: tff.Computation  # what `next` calls
    seen: bool = True  # each client's numbers by the server
    summed: Aggregation | None = None  # by the sites themselves, under this aggregation

    def next(self, weights: Sequence[Any], positions: Sequence[int], data: Sequence[Any]) -> ReestimationResult:
        """The weights with new statistics, on the engine that is open.

        Args:
          weights: of the model, all of them.
          positions: the numbers of the clients that take part, which their reports carry.
          data: of each of them, as the task's `client_spec` says.
        """
        return ReestimationResult(**self.computation(weights=list(weights), positions=list(positions), data=list(data)))

    def bytes_down(self, clients: int) -> int:
        return clients * self.layout.byte_count()

    def bytes_up(self, clients: int) -> int:
        return clients * (byte_count(self.sent) + 4 * len(REPORT_COLUMNS))


def build_reestimation(
    task: Task, aggregation: Aggregation | None = None, across_sites: bool = False
) -> Reestimation | None:
    """Traces the computation; None if the task's model has no BatchNorm that is trained: there is nothing to do."""
    aggregation = aggregation or Aggregation()
    check_aggregation(aggregation)
    norms = batch_norms(task.model)
    if not norms:
        return None
    layout = WeightsLayout.of(task.model)
    collect = _client_work(task, norms, layout, aggregation)
    collected = collect.type_signature.result
    sums = aggregation if across_sites and summed.applies(aggregation) else None
    pool = (
        (aggregation.of_sums() if sums else aggregation)
        .statistics_factory()
        .create(collected.moments, tff.TensorType(np.float32))
    )
    put_in = _server_work(task, norms, layout, collected.moments)
    weights_type = data_type(layout.specs())

    @tff.federated_computation(
        tff.StructType(
            [
                ("weights", tff.FederatedType(weights_type, tff.SERVER)),
                ("positions", tff.FederatedType(np.int32, tff.CLIENTS)),
                ("data", tff.FederatedType(data_type(task.client_spec), tff.CLIENTS)),
            ]
        )
    )
    def reestimate_statistics(given: Any) -> Any:
        broadcast = tff.federated_broadcast(given.weights)
        done = tff.federated_map(collect, (broadcast, given.positions, given.data))
        # Sums with fixed bounds, and means of them, have no state to carry on.
        pooled = pool.next(pool.initialize(), done.moments, done.weight).result
        weights = tff.federated_map(put_in, (given.weights, pooled, tff.federated_sum(done.weight)))
        row = tf.TensorSpec([len(REPORT_COLUMNS)], tf.float32)
        return {"weights": weights, "reports": gather(done.report, row)}

    sent = [spec for norm in norms for spec in _moment_specs(norm)]
    return Reestimation(layout, sent, reestimate_statistics, aggregation.seen, sums)


def check_aggregation(aggregation: Aggregation) -> None:
    """Refuses the one under which the numbers that clients send would break a promise."""
    if aggregation.aggregator == "dp":
        raise UserError(
            "--reestimate: --aggregator dp would neither noise nor count the statistics that clients send for it;"
            " leave out one of the two"
        )
    if aggregation.aggregator in AGAINST_BAD:
        raise UserError(
            f"--reestimate: --aggregator {aggregation.aggregator} takes medians, and medians of moments are those of no"
            " data; leave out one of the two"
        )


class Reestimated(NamedTuple):
    """What `reestimate` did to a state."""

    state: AnyState
    clients: int  # whose statistics are in it
    left_out: dict[str, str]  # name -> why
    bytes_down: int
    bytes_up: int


def reestimate(
    reestimation: Reestimation, state: AnyState, clients: Sequence[Client], number: int, names: Set[str]
) -> Reestimated:
    """New statistics for the models in a state; those of a mean over rounds are its own: it is another model.

    Args:
      reestimation: what is played.
      state: the server's, after a round.
      clients: all of them.
      number: the round's; its data is used again.
      names: of those that took part in it. Who could not train is not asked again.
    """
    asked = [position for position, client in enumerate(clients) if client.name in names]
    left_out: dict[str, str] = {}
    down = up = 0
    summing: Summing | None = None

    def with_new_statistics(weights: Sequence[Any]) -> tuple[list[Any], int]:
        nonlocal asked, down, up
        down += reestimation.bytes_down(len(asked))

        def call(present: Sequence[int]) -> ReestimationResult:
            nonlocal summing
            there = [clients[each] for each in present]
            summing = summing_of(reestimation.summed, there)
            with (
                summed_if(summing),
                judged(Judge(present, [clients[each].examples for each in present], raw=reestimation.seen)),
            ):
                return reestimation.next(weights, present, [clients[each].data(number) for each in present])

        result, present, failed = call_without_failing(
            call,
            asked,
            f"re-estimating BatchNorm's statistics after round {number}",
        )
        left_out.update({clients[position].name: why for position, why in failed.items()})
        asked = present
        if result is None:
            return list(weights), 0
        up += reestimation.bytes_up(len(present))
        if summing is not None:
            lost = {clients[present[place]].name: f"failed: {why}" for place, why in summing.lost.items()}
            left_out.update(lost)
            asked = [present[place] for place in summing.present]
            what = f"BatchNorm's statistics after round {number}"
            summed.check_total(summing, [clients[each].examples for each in asked], SECURE_BOUND, what)
            return list(result.weights), summed.took_part(summing, result.reports)[0]
        rows = [dict(zip(REPORT_COLUMNS, row.tolist())) for row in np.asarray(result.reports)]
        for row in rows:
            if not row["ok"]:
                why = "statistics are not finite or too large" if row["examples"] else "no usable examples"
                left_out[clients[int(row["client"])].name] = why
        return list(result.weights), sum(bool(row["ok"]) for row in rows)

    weights, took_part = with_new_statistics(state.weights)
    state = state._replace(weights=weights)
    if isinstance(state, AveragingState):
        mean, of_mean = with_new_statistics(state.mean)
        state, took_part = state._replace(mean=mean), min(took_part, of_mean)
    return Reestimated(state, took_part, left_out, down, up)


class _Collected(NamedTuple):
    """What one client hands in."""

    moments: list[Moments]  # of each layer
    weight: Any
    report: Any


def _client_work(
    task: Task, norms: list[tf.keras.layers.Layer], layout: WeightsLayout, aggregation: Aggregation
) -> tff.Computation:
    model, specs, path = task.model, layout.specs(), path_to_images(task)

    @tf.function
    def totals(batches: tf.data.Dataset) -> tuple[tf.Tensor, list[Moments]]:
        examples = tf.constant(0.0, tf.float64)
        sums = [Moments(*(tf.zeros(spec.shape, spec.dtype) for spec in _moment_specs(norm))) for norm in norms]
        for element in iter(batches):
            images = element[0] if isinstance(element, tuple) else element
            for norm in norms:  # what comes is added to what is there
                norm.moving_mean.assign(tf.zeros_like(norm.moving_mean))
                norm.moving_variance.assign(tf.zeros_like(norm.moving_variance))
            model(images, training=True)
            count = tf.cast(tf.shape(images)[0], tf.float64)
            examples += count
            batch = [_moments_left_in(norm) for norm in norms]
            sums = [Moments(*(old + count * new for old, new in zip(*pair))) for pair in zip(sums, batch)]
        return examples, sums

    def collect(weights: Tensors, position: tf.Tensor, data: Any) -> _Collected:
        for variable, value in zip(model.weights, weights):
            variable.assign(value)
        for index in path:
            data = data[index]
        examples, sums = totals(data)
        values = [value for moments in sums for value in moments]
        usable = [
            tf.reduce_all(tf.math.is_finite(value) & (tf.abs(value) <= aggregation.statistics_bound))
            for value in values
        ]
        ok = tf.reduce_all(usable) & (examples > 0)
        # Zeroed, not multiplied by zero: 0 · NaN is NaN.
        means = [Moments(*(tf.where(ok, value / examples, tf.zeros_like(value)) for value in each)) for each in sums]
        report = tf.stack([tf.cast(value, tf.float32) for value in (position, ok, examples)])
        return _Collected(means, tf.where(ok, tf.cast(examples, tf.float32), 0.0), report)

    with _storing_batch_statistics(norms):
        portable = PortableFunction(model, collect, (specs, tf.TensorSpec([], tf.int32), task.client_spec))

    @tff.tensorflow.computation(data_type(specs), np.int32, data_type(task.client_spec))
    def work(weights: Any, position: Any, data: Any) -> Any:
        return portable(list(weights), position, data)

    return work


def _server_work(
    task: Task, norms: list[tf.keras.layers.Layer], layout: WeightsLayout, moments_type: tff.Type
) -> tff.Computation:
    place = {id(variable): index for index, variable in enumerate(task.model.weights)}

    @tff.tensorflow.computation(data_type(layout.specs()), moments_type, np.float32)
    def put_in(weights: Any, pooled: Any, examples: Any) -> Any:
        new = list(weights)
        for norm, moments in zip(norms, pooled):
            values = {
                place[id(norm.moving_mean)]: moments.mean,
                # Rounding can take it below zero, and its square root with it.
                place[id(norm.moving_variance)]: tf.nn.relu(moments.square - moments.mean**2),
            }
            for index, value in values.items():
                new[index] = tf.where(examples > 0, tf.cast(value, new[index].dtype), new[index])
        return new

    return put_in


@contextlib.contextmanager
def _storing_batch_statistics(norms: Sequence[tf.keras.layers.Layer]) -> Iterator[None]:
    """What is traced inside leaves a batch's own mean and variance where the moving ones are."""
    usual = [(norm.momentum, norm.fused) for norm in norms]
    for norm in norms:
        norm.momentum, norm.fused = 0.0, False  # fused, it would store a variance with Bessel's correction
    try:
        yield
    finally:
        for norm, (momentum, fused) in zip(norms, usual):
            norm.momentum, norm.fused = momentum, fused


def _moments_left_in(norm: tf.keras.layers.Layer) -> Moments:
    mean, variance = (tf.cast(value, tf.float64) for value in (norm.moving_mean, norm.moving_variance))
    return Moments(mean, variance + mean**2)


def _moment_specs(norm: tf.keras.layers.Layer) -> Moments:
    return Moments(*(tf.TensorSpec(norm.moving_mean.shape, tf.float64) for _ in Moments._fields))
