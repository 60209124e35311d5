"""One row a client: a table at the server of what each of them sent, for whoever must tell them apart."""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated.task import data_type


def gather(value: tff.Value, spec: tf.TensorSpec) -> tff.Value:
    """Every client's tensor as one row of a server-placed table: who took part must be known, in any engine."""
    row_type = data_type(spec)
    rows = data_type(tf.TensorSpec([None, *spec.shape], spec.dtype))

    @tff.tensorflow.computation
    def none_yet() -> Any:
        return tf.zeros([0, *spec.shape], spec.dtype)

    @tff.tensorflow.computation(rows, row_type)
    def append(table: Any, row: Any) -> Any:
        return tf.concat([table, row[tf.newaxis]], axis=0)

    @tff.tensorflow.computation(rows, rows)
    def join(table: Any, other: Any) -> Any:
        return tf.concat([table, other], axis=0)

    @tff.tensorflow.computation(rows)
    def same(table: Any) -> Any:
        return table

    return tff.federated_aggregate(value, none_yet(), append, join, same)
