"""Every client's own mixture of Gaussians, gathered in one round: 28 numbers a component for vectors of six.

     each client                                             server
     rows ──► weights, means, covariances (its place in a table of zeros) ── sum ──► all clients' mixtures

A single component is the client's mean and covariance, which are functions of its sums alone. No row leaves a client.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.gaussian_mixture import Mixture, fit
from tffapps.federated.lazy import tf, tff


def client_mixtures(tables: Sequence[Any], dimensions: int, components: int) -> list[Mixture]:
    """One for each client, of at most so many components: of each a dataset of (its number, float64 table (n, d)).

    To be called inside `open_engine`; the datasets may be `AtSite`.
    """
    found = _computation(len(tables), dimensions, components)(list(tables))
    parts = [np.asarray(part) for part in found]
    return [Mixture(*(part[number] for part in parts)) for number in range(len(tables))]


@functools.cache
def _computation(clients: int, dimensions: int, components: int) -> tff.Computation:
    table = tff.TensorType(np.int32), tff.TensorType(np.float64, [None, dimensions])
    shapes = [components], [components, dimensions], [components, dimensions, dimensions]

    @tff.tensorflow.computation(tff.SequenceType(table))
    def fitted(tables: Any) -> Any:
        nothing = tuple(tf.zeros([clients, *shape], tf.float64) for shape in shapes)

        def add(so_far: Any, element: Any) -> Any:
            number, rows = element
            place = tf.one_hot(number, clients, dtype=tf.float64)
            more = [tf.tensordot(place, part, axes=0) for part in fit(rows, components)]
            return tuple(tf.ensure_shape(old + new, old.shape) for old, new in zip(so_far, more))

        return tables.reduce(nothing, add)

    @tff.federated_computation(tff.FederatedType(fitted.type_signature.parameter, tff.CLIENTS))
    def run(tables: Any) -> Any:
        return tff.federated_sum(tff.federated_map(fitted, tables))

    return run
