"""A loop over a dataset inside a traced function, without AutoGraph.

AutoGraph rewrites the source of all that a function calls: two seconds of every command before its first round. What it
makes of `for batch in iter(dataset)` is this loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

S = TypeVar("S")


def over_batches(step: Callable[[S, Any], S], batches: tf.data.Dataset, first: S) -> S:
    """The last state: `step(state, batch)` is the next one, `first` the one before the first batch."""
    iterator = iter(batches)  # as `Dataset.reduce` it would be twice as slow

    def body(_: tf.Tensor, state: S) -> tuple[tf.Tensor, S]:
        batch = iterator.get_next_as_optional()
        there = batch.has_value()
        return there, tf.cond(there, lambda: step(state, batch.get_value()), lambda: state)

    return tf.while_loop(lambda there, _: there, body, (tf.constant(True), first))[1]
