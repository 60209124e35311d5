"""A mean, weighted by examples, of which the server learns the sums alone: by TFF's secure sum of whole numbers.

A client sends round(value · examples / UNIT), as the protocol wants it: a number of BITS bits. That has room for values
times examples up to BOUND and is exact to half a UNIT, so that neither many examples nor large statistics are cut, and
nothing depends on how many there are. What does not fit is not cut silently: every client counts its values that are
out of range, the counts are summed securely too, and whoever plays the round refuses its result (`out_of_range`).
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated.aggregation import SECURE_BOUND as BOUND

UNIT = 2.0**-20
BITS = 50  # so that the sum over 2^12 clients fits into 63
_EXAMPLE_BITS, _COUNT_BITS = 40, 40
_SHIFT = 1 << (BITS - 1)  # the protocol adds up what is not negative

OUT_OF_RANGE = "out_of_range"


class SecureMeanFactory(tff.aggregators.WeightedAggregationFactory):
    """Of structures of floating-point tensors. Its measurement is the number of values that did not fit."""

    def create(self, value_type: Any, weight_type: Any) -> tff.templates.AggregationProcess:
        kinds = tff.structure.flatten(value_type)

        @tff.tensorflow.computation(value_type, weight_type)
        def encoded(value: Any, weight: Any) -> Any:
            examples = tf.round(tf.cast(weight, tf.float64))
            sums = [tf.cast(part, tf.float64) * examples for part in tff.structure.flatten(value)]
            out = [tf.math.count_nonzero(tf.abs(part) > BOUND) for part in sums]
            numbers = [tf.cast(tf.round(tf.clip_by_value(part, -BOUND, BOUND) / UNIT), tf.int64) for part in sums]
            return (
                [tf.minimum(part + _SHIFT, 2 * _SHIFT - 1) for part in numbers],
                tf.cast(examples, tf.int64),
                tf.add_n(out),
                np.int64(1),
            )

        numbers_type = [tff.TensorType(np.int64, kind.shape) for kind in kinds]

        @tff.tensorflow.computation(numbers_type, np.int64, np.int64)
        def decoded(totals: Any, examples: Any, clients: Any) -> Any:
            divisor = tf.cast(examples, tf.float64)
            sums = [UNIT * tf.cast(total - clients * _SHIFT, tf.float64) for total in totals]
            means = [tf.cast(tf.math.divide_no_nan(part, divisor), kind.dtype) for part, kind in zip(sums, kinds)]
            return tff.structure.pack_sequence_as(value_type, means)

        @tff.federated_computation
        def initialize() -> Any:
            return tff.federated_value((), tff.SERVER)

        @tff.federated_computation(
            initialize.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_(state: Any, value: Any, weight: Any) -> Any:
            numbers, examples, out, one = tff.federated_map(encoded, (value, weight))
            totals = tff.federated_secure_sum_bitwidth(numbers, BITS)
            examples = tff.federated_secure_sum_bitwidth(examples, _EXAMPLE_BITS)
            clients = tff.federated_secure_sum_bitwidth(one, 1)
            measured = collections.OrderedDict({OUT_OF_RANGE: tff.federated_secure_sum_bitwidth(out, _COUNT_BITS)})
            result = tff.federated_map(decoded, (totals, examples, clients))
            return tff.templates.MeasuredProcessOutput(state, result, tff.federated_zip(measured))

        return tff.templates.AggregationProcess(initialize, next_)


def out_of_range(measurements: Any) -> int:
    """In the measurements of a round: how many values of all clients did not fit."""
    return sum(int(part[OUT_OF_RANGE]) for part in measurements.values() if OUT_OF_RANGE in part)
