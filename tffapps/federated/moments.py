"""Mean and standard deviation of vectors that lie at the clients, by sums: no vector leaves its client."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tffapps.federated.lazy import tf, tff


class Moments(NamedTuple):
    mean: np.ndarray  # float64 (d)
    std: np.ndarray  # float64 (d), of the population


def federated_moments(tables: Sequence[Any], dimensions: int) -> Moments:
    """Over the rows of all clients: of each a dataset of float64 tables (n, d), which may be `AtSite`.

    To be called inside `open_engine`.
    """
    return Moments(*(np.asarray(part) for part in _computation(dimensions)(list(tables))))


@functools.cache
def _computation(dimensions: int) -> tff.Computation:

    nothing = np.float64(0), np.zeros(dimensions), np.zeros(dimensions)

    @tff.tensorflow.computation(tff.SequenceType(tff.TensorType(np.float64, [None, dimensions])))
    def sums(tables: Any) -> Any:
        def add(so_far: Any, table: tf.Tensor) -> Any:
            count = tf.cast(tf.shape(table)[0], tf.float64)
            more = count, tf.reduce_sum(table, axis=0), tf.reduce_sum(table**2, axis=0)
            return tuple(old + new for old, new in zip(so_far, more))

        return tables.reduce(nothing, add)

    @tff.tensorflow.computation(sums.type_signature.result)
    def moments(totals: Any) -> Any:
        count, first, second = totals
        mean = tf.math.divide_no_nan(first, count)
        return mean, tf.sqrt(tf.maximum(tf.math.divide_no_nan(second, count) - mean**2, 0.0))

    @tff.federated_computation(tff.FederatedType(sums.type_signature.parameter, tff.CLIENTS))
    def run(tables: Any) -> Any:
        return tff.federated_map(moments, tff.federated_sum(tff.federated_map(sums, tables)))

    return run
