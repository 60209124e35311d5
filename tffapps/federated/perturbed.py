"""Gradients taken a little beside the weights, as the methods that look for flat minima take them."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def of_length(length: float, direction: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The direction, all its tensors being one vector, at this Euclidean length; no direction gives zeros."""
    scale = tf.math.divide_no_nan(length, tf.linalg.global_norm(direction))
    return [scale * part for part in direction]


def beside(variables: Sequence[tf.Variable], offsets: Sequence[tf.Tensor], evaluate: Callable[[], Any]) -> Any:
    """`evaluate()` with the variables moved by `offsets`; afterwards they are what they were, to the last bit."""
    before = [variable.read_value() for variable in variables]
    for variable, offset in zip(variables, offsets):
        variable.assign_add(offset)
    result = evaluate()
    for variable, value in zip(variables, before):
        variable.assign(value)
    return result


def put_in(variables: Sequence[tf.Variable], values: Sequence[tf.Tensor], evaluate: Callable[[], Any]) -> Any:
    """`evaluate()` with these values in the variables; afterwards they are what they were, to the last bit."""
    before = [variable.read_value() for variable in variables]
    for variable, value in zip(variables, values):
        variable.assign(value)
    result = evaluate()
    for variable, value in zip(variables, before):
        variable.assign(value)
    return result
