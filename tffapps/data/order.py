"""The order of an epoch and the seeds of its examples: functions of a seed and of numbers, in TensorFlow operations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

SEED, NUMBER = tf.TensorSpec((2,), tf.int32), tf.TensorSpec((), tf.int64)
ORDER, AUGMENT = 0, 1  # two streams of random numbers from one seed


def of_rows(rows: tf.Tensor, seed: tf.Tensor, epoch: tf.Tensor, shuffle: bool) -> tf.Tensor:
    order = tf.range(tf.shape(rows, tf.int64)[0])
    if not shuffle:
        return order
    # index_shuffle would need no memory, but its four rounds make some orders much likelier than others.
    return tf.random.experimental.stateless_shuffle(order, fold(seed, epoch), alg="philox")


def fold(seed: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(seed, tf.cast(number, tf.int32), alg="philox")


def stream(seed: int, number: int) -> tf.Tensor:
    """A stateless seed; neighbouring run seeds give unrelated ones."""
    return tf.constant(np.random.SeedSequence([seed, number]).generate_state(2).astype(np.int32))


def traced_once(signature: list[tf.TensorSpec]) -> Callable[..., Any]:
    return tf.function(input_signature=signature, autograph=False)
