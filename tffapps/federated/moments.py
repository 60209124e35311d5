"""Mean and standard deviation of vectors that lie at the clients, by sums: no vector leaves its client."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


class Moments(NamedTuple):
    mean: np.ndarray  # float64 (d)
    std: np.ndarray  # float64 (d), of the population


def federated_moments(values: Sequence[np.ndarray]) -> Moments:
    """Over the rows of all clients' tables (n, d). To be called inside `open_engine`."""
    tables = [np.asarray(table, np.float64) for table in values]
    return Moments(*(np.asarray(part) for part in _computation(tables[0].shape[1])(tables)))


@functools.cache
def _computation(dimensions: int) -> tff.Computation:
    @tff.tensorflow.computation(tff.TensorType(np.float64, [None, dimensions]))
    def sums(table):
        count = tf.cast(tf.shape(table)[0], tf.float64)
        return count, tf.reduce_sum(table, axis=0), tf.reduce_sum(table**2, axis=0)

    @tff.tensorflow.computation(sums.type_signature.result)
    def moments(totals):
        count, first, second = totals
        mean = tf.math.divide_no_nan(first, count)
        return mean, tf.sqrt(tf.maximum(tf.math.divide_no_nan(second, count) - mean**2, 0.0))

    @tff.federated_computation(tff.FederatedType(sums.type_signature.parameter, tff.CLIENTS))
    def run(tables):
        return tff.federated_map(moments, tff.federated_sum(tff.federated_map(sums, tables)))

    return run
