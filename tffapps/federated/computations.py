"""The computations that a round is made of: what a client does, and what the server does beside the update."""

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated import scaling
from tffapps.federated.aggregator import Update, update_type
from tffapps.federated.local import ClientContext, Tensors
from tffapps.federated.method import Method
from tffapps.federated.portable import PortableFunction
from tffapps.federated.record_noise import Seeded
from tffapps.federated.task import Task, WeightsLayout, data_type
from tffapps.federated.unequal import WithClassCounts


class Specs(NamedTuple):
    """Of all that a round handles beside a client's data."""

    weights: list[tf.TensorSpec]
    memory: list[tf.TensorSpec]
    sent: list[tf.TensorSpec]
    gathered: list[tf.TensorSpec]  # as one client sends it
    kept: list[tf.TensorSpec]  # a client's own weights first, where they are not sent

    def received(self) -> list[tf.TensorSpec]:
        """What was sent, as it is at the server: the means, then what was gathered."""
        return [*self.sent, *(tf.TensorSpec([None, *spec.shape], spec.dtype) for spec in self.gathered)]


class _ClientResult(NamedTuple):
    update: Update
    weight: Any
    report: Any
    gathered: list[Any]
    kept: list[Any]


def client_work(
    task: Task, method: Method, layout: WeightsLayout, specs: Specs, says_loss: bool = True
) -> tff.Computation:
    variables, down = task.model.weights, specs.weights if method.sends_weights else []

    def train(weights: Tensors, site: ClientContext, data: Any) -> _ClientResult:
        held = 0 if method.sends_weights else len(variables)  # of what it keeps: its model
        start = weights if method.sends_weights else site.kept[:held]
        for variable, value in zip(variables, start):
            variable.assign(value)
        here, data = _with_own_loss(task, data)
        done = method.work(here, data, site._replace(kept=site.kept[held:]))
        if method.sends_weights:
            moved = [variable - value for variable, value in zip(variables, start)]
            update = Update(layout.trained(moved), layout.statistics(moved), list(done.sent))
            kept = list(done.kept)
        else:
            update = Update([], [], list(done.sent))
            kept = [*(variable.read_value() for variable in variables), *done.kept]
        values = [*(value for part in update for value in part), *done.gathered, *kept]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values if value.dtype.is_floating])
        ok = tf.logical_and(finite, done.examples > 0)
        # Zeroed, not multiplied by zero: 0 · NaN is NaN. Chosen, not copied: an update is as large as the model.
        trained, statistics, sent, gathered = _or_zeros(ok, [*update, list(done.gathered)])
        update = Update(trained, statistics, sent)
        kept = [tf.where(ok, new, old) for new, old in zip(kept, site.kept)]
        numbers = (site.position, ok, done.examples, done.loss if says_loss else 0.0, *done.extras)
        numbers = (*numbers, done.overflowed if says_loss else 0.0) if scaling.columns(task.model) else numbers
        report = tf.stack([tf.cast(number, tf.float32) for number in numbers])
        weight = tf.clip_by_value(done.weight, 0.0, 1.0) if method.weighs_clients else done.examples
        return _ClientResult(update, tf.where(ok, weight, 0.0), report, gathered, kept)

    site_spec = ClientContext(tf.TensorSpec([], tf.int32), specs.memory, specs.kept)
    portable = PortableFunction(task.model, train, (down, site_spec, task.client_spec))
    parts = [data_type(down), data_type(specs.memory), np.int32, data_type(task.client_spec), data_type(specs.kept)]

    if specs.kept:

        @tff.tensorflow.computation(*parts)
        def work(weights: Any, memory: Any, position: Any, data: Any, kept: Any) -> Any:
            return portable(list(weights), ClientContext(position, list(memory), list(kept)), data)
    else:

        @tff.tensorflow.computation(*parts[:-1])
        def work(weights: Any, memory: Any, position: Any, data: Any) -> Any:
            return portable(list(weights), ClientContext(position, list(memory)), data)

    return work


def _or_zeros(ok: tf.Tensor, parts: list[Tensors]) -> list[Tensors]:
    """The same, or zeros in their place."""
    values = [value for part in parts for value in part]
    if not values:
        return parts
    chosen = iter(tf.cond(ok, lambda: values, lambda: [tf.zeros_like(value) for value in values]))
    return [[next(chosen) for _ in part] for part in parts]


def _with_own_loss(task: Task, data: Any) -> tuple[Task, Any]:
    """The task as a client sees it, and its data without the seed of its noise and the counts that its loss goes by."""
    if isinstance(data, Seeded):
        task, data = dataclasses.replace(task, noise_seed=data.noise_seed), data.training
    if task.loss_by_counts is None:
        return task, data
    return dataclasses.replace(task, loss=task.loss_by_counts(data.counts)), data.training


def server_update(
    method: Method, layout: WeightsLayout, optimizer: Any, optimizer_type: tff.Type, specs: Specs
) -> tff.Computation:
    """The mean update becomes part of the weights."""

    @tff.tensorflow.computation(data_type(specs.weights), optimizer_type, update_type(layout, specs.sent), np.float32)
    def update_weights(weights: Any, optimizer_state: Any, update: Any, examples: Any) -> Any:
        trained, statistics = method.mean_update(list(update.trained), list(update.sent)), update.statistics
        if method.server_examples:
            # The server's own model is one more client of the mean, whose update is zero.
            share = tf.math.divide_no_nan(examples, examples + method.server_examples)
            trained = [share * value for value in trained]
            statistics = [share * value for value in statistics]
        pseudo_gradient = [-value for value in trained]
        optimizer_state, trained = optimizer.next(optimizer_state, layout.trained(weights), pseudo_gradient)
        statistics = [weight + value for weight, value in zip(layout.statistics(weights), statistics)]
        # Noise and rounding can take a variance below zero, and its square root with it.
        is_variance = layout.statistics(layout.variance)
        statistics = [tf.nn.relu(value) if flag else value for value, flag in zip(statistics, is_variance)]
        return layout.joined(trained, statistics), optimizer_state

    return update_weights


def server_step(task: Task, method: Method, specs: Specs) -> tff.Computation:
    variables = task.model.weights

    def train(weights: Tensors, data: Any, memory: Tensors, sent: Tensors) -> tuple[Tensors, Tensors]:
        for variable, value in zip(variables, weights):
            variable.assign(value)
        here, data = _with_own_loss(task, data) if isinstance(data, WithClassCounts) else (task, data)
        memory = method.server_step(here, data, memory, sent)
        return [variable.read_value() for variable in variables], list(memory)

    portable = PortableFunction(task.model, train, (specs.weights, task.server_spec, specs.memory, specs.received()))
    types = (data_type(spec) for spec in (specs.weights, task.server_spec, specs.memory, specs.received()))

    @tff.tensorflow.computation(*types)
    def step(weights: Any, data: Any, memory: Any, sent: Any) -> Any:
        return portable(list(weights), data, list(memory), list(sent))

    return step


def next_memory(task: Task, method: Method, specs: Specs) -> tff.Computation:
    arguments = (specs.memory, specs.received(), specs.weights, specs.weights)
    # Traced outside: in TFF's graphs, which are TensorFlow 1's, `==` of two tensors would be False whatever they hold.
    portable = PortableFunction(task.model, functools.partial(method.next_memory, task), arguments)

    @tff.tensorflow.computation(*map(data_type, arguments))
    def update(memory: Any, sent: Any, before: Any, after: Any) -> Any:
        return portable(list(memory), list(sent), list(before), list(after))

    return update


def mean_over_rounds(method: Method, weights_type: tff.Type) -> tff.Computation:
    @tff.tensorflow.computation(np.int32, weights_type, weights_type)
    def update(number: Any, mean: Any, weights: Any) -> Any:
        number += 1
        count = tf.cast(tf.maximum(number - method.average_from + 1, 1), tf.float32)
        return number, [old + (new - old) / tf.cast(count, new.dtype) for old, new in zip(mean, weights)]

    return update
