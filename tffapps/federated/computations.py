"""The computations that a round is made of: what a client does, and what the server does beside the update."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated.aggregator import Update
from tffapps.federated.local import Site
from tffapps.federated.method import Method
from tffapps.federated.portable import PortableFunction
from tffapps.federated.task import Task, WeightsLayout, data_type


class _ClientResult(NamedTuple):
    update: Update
    weight: Any
    report: Any


def client_work(
    task: Task, method: Method, layout: WeightsLayout, weights_type: tff.Type, memory: list[tf.TensorSpec]
) -> tff.Computation:
    variables = task.model.weights

    def train(weights, site, data):
        for variable, value in zip(variables, weights):
            variable.assign(value)
        done = method.work(task, data, site)
        moved = [variable - value for variable, value in zip(variables, weights)]
        update = Update(layout.trained(moved), layout.statistics(moved), list(done.sent))
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for part in update for value in part])
        ok = tf.logical_and(finite, done.examples > 0)
        # Zeroed, not multiplied by zero: 0 · NaN is NaN.
        update = Update(*([tf.where(ok, value, tf.zeros_like(value)) for value in part] for part in update))
        numbers = (site.position, ok, done.examples, done.loss, *done.extras)
        report = tf.stack([tf.cast(number, tf.float32) for number in numbers])
        return _ClientResult(update, tf.where(ok, done.examples, 0.0), report)

    site_spec = Site(tf.TensorSpec([], tf.int32), memory)
    portable = PortableFunction(task.model, train, (layout.specs(), site_spec, task.client_spec))

    @tff.tensorflow.computation(weights_type, data_type(memory), np.int32, data_type(task.client_spec))
    def work(weights, memory, position, data):
        return portable(list(weights), Site(position, list(memory)), data)

    return work


def server_step(task: Task, method: Method, layout: WeightsLayout, weights_type: tff.Type) -> tff.Computation:
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


def next_memory(
    task: Task, method: Method, weights_type: tff.Type, memory: list[tf.TensorSpec], sent: list[tf.TensorSpec]
) -> tff.Computation:
    @tff.tensorflow.computation(data_type(memory), data_type(sent), weights_type, weights_type)
    def update(memory, sent, before, after):
        return method.next_memory(task, list(memory), list(sent), list(before), list(after))

    return update


def mean_over_rounds(method: Method, weights_type: tff.Type) -> tff.Computation:
    @tff.tensorflow.computation(np.int32, weights_type, weights_type)
    def update(number, mean, weights):
        number += 1
        count = tf.cast(tf.maximum(number - method.average_from + 1, 1), tf.float32)
        return number, [old + (new - old) / tf.cast(count, new.dtype) for old, new in zip(mean, weights)]

    return update


def gather(report: tff.Value, columns: int) -> tff.Value:
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
