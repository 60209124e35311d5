"""Aggregation by a rule over the table of all updates: the server sees each of them.

A client that was left out (its weight is 0) is not in the table that a rule gets, nor is one that sends what is no
number, whatever it says of itself: this is done at the server, and holds for sites that lie. Tables are as large as
all updates together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated import row_rules
from tffapps.federated.rows import gather

# (rows (clients, d), weights (clients), the bound of the round before: 0 in the first) -> (update (d), the next bound)
Rule = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

FAR = 10.0  # robust: updates longer than so many times the cohort's median are left out
_ROOM = 2.0  # robust: its first bound, in medians
_QUANTILE, _RATE = 0.8, 0.2  # robust: how its bound follows the norms, as in TFF's own and Andrew et al. 2021


def stateless(rule: Callable[[tf.Tensor], tf.Tensor]) -> Rule:
    """Of a rule that needs neither weights nor a bound."""
    return lambda rows, weights, bound: (rule(rows), bound)


def norm_bound(rows: tf.Tensor, weights: tf.Tensor, bound: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return row_rules.norm_bound(rows, weights), bound


def robust(rows: tf.Tensor, weights: tf.Tensor, bound: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The weighted mean without updates that are far too long, the others clipped at a bound that begins with twice the
    cohort's median and follows the 0.8 quantile of the norms from round to round."""
    norms = tf.norm(rows, axis=1)
    middle = row_rules.median(norms)
    near = norms <= FAR * middle
    bound = tf.where(bound > 0, bound, _ROOM * middle)
    within = row_rules.masked_share(norms <= bound, near)
    update = row_rules.clipped_mean(rows, norms, tf.where(near, weights, 0.0), bound)
    return update, bound * tf.exp(_RATE * (_QUANTILE - within))


class RowsFactory(tff.aggregators.WeightedAggregationFactory):
    """Of values that are structures of floating-point tensors; the state is the bound."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def create(self, value_type: Any, weight_type: Any) -> tff.templates.AggregationProcess:
        kinds = tff.structure.flatten(tff.structure.map_structure(lambda kind: kind, value_type))
        sizes = [int(np.prod(kind.shape)) for kind in kinds]
        dtype = np.result_type(np.float32, *(kind.dtype for kind in kinds))
        row = tf.TensorSpec([sum(sizes)], dtype)
        rows_type = tff.TensorType(dtype.type, [None, sum(sizes)])
        rule = self.rule

        @tff.tensorflow.computation(value_type)
        def flat(value: Any) -> Any:
            return tf.concat([tf.reshape(tf.cast(part, dtype), [-1]) for part in tff.structure.flatten(value)], axis=0)

        @tf.function
        def combined(rows: tf.Tensor, weights: tf.Tensor, bound: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # A client that was not left out may still send what is no number: here it can be seen, and is not counted.
            present = (weights > 0) & tf.math.is_finite(weights) & tf.reduce_all(tf.math.is_finite(rows), axis=1)
            if not tf.reduce_any(present):
                return tf.zeros([sum(sizes)], dtype), bound
            update, bound = rule(rows[present], tf.cast(weights[present], dtype), tf.cast(bound, dtype))
            return update, tf.cast(bound, tf.float32)

        @tff.tensorflow.computation(rows_type, tff.TensorType(np.float32, [None]), np.float32)
        def combine(rows: Any, weights: Any, bound: Any) -> Any:
            vector, bound = combined(rows, weights, bound)
            parts = tf.split(vector, sizes)
            shaped = [tf.cast(tf.reshape(part, kind.shape), kind.dtype) for part, kind in zip(parts, kinds)]
            return tff.structure.pack_sequence_as(value_type, shaped), bound

        @tff.federated_computation
        def initialize() -> Any:
            return tff.federated_value(np.float32(0), tff.SERVER)

        @tff.federated_computation(
            initialize.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_(state: Any, value: Any, weight: Any) -> Any:
            rows = gather(tff.federated_map(flat, value), row)
            weights = gather(weight, tf.TensorSpec([], tf.float32))
            done = tff.federated_map(combine, (rows, weights, state))
            return tff.templates.MeasuredProcessOutput(done[1], done[0], tff.federated_value((), tff.SERVER))

        return tff.templates.AggregationProcess(initialize, next_)
