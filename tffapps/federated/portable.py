"""Carries a function over a Keras model into a TFF computation.

Keras builds a model several times more slowly inside the graph that TFF traces (its layers fall back to their
TensorFlow 1 form), so the model is built and the function traced outside, eagerly, once. Inside the computation the
traced function is called with fresh variables in place of the model's own, and of its scratch variables.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf


class Scratch(NamedTuple):
    """Room for a portable function to work in, such as an optimiser's moments. To be filled before it is read."""

    handle: tf.Tensor
    shape: tf.TensorShape
    dtype: tf.DType

    def fill_with_zeros(self) -> None:
        self.assign(tf.zeros(self.shape, self.dtype))

    def assign(self, value: tf.Tensor) -> None:
        tf.raw_ops.AssignVariableOp(resource=self.handle, value=value)

    def read(self) -> tf.Tensor:
        return tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype), self.shape)


_scratches: dict[int, Scratch] = {}  # by the identity of the handle
_serial = itertools.count()


def scratch_like(variable: tf.Variable | tf.Tensor | tf.TensorSpec) -> Scratch:
    # By the raw operation: while it traces, tf.function does not let anyone make a tf.Variable.
    with tf.init_scope():
        name = f"scratch_{next(_serial)}"
        handle = tf.raw_ops.VarHandleOp(dtype=variable.dtype, shape=variable.shape, shared_name=name)
    scratch = Scratch(handle, variable.shape, variable.dtype)
    _scratches[id(handle)] = scratch
    return scratch


class PortableFunction:
    """`function(*arguments)` over `model`, traced for arguments of the types `specs`.

    Traced as it stands, without AutoGraph (`over_batches`); parts that need it are a `tf.function` of their own.
    """

    def __init__(self, model: tf.keras.Model, function: Callable[..., Any], specs: tuple[Any, ...]) -> None:
        self._traced = tf.function(function, autograph=False).get_concrete_function(*specs)
        self._variables = {id(variable.handle): variable for variable in model.variables}

    def __call__(self, *arguments: Any) -> Any:
        """To be called where TFF traces a computation. The function must assign every variable before reading it."""
        tensors = [tensor for argument in arguments for tensor in _tensors(argument)]
        captured = [self._stand_in(tensor) for tensor in self._traced.captured_inputs]
        flat = self._traced._call_flat(tensors, captured)
        return tf.nest.pack_sequence_as(self._traced.structured_outputs, tf.nest.flatten(flat))

    def _stand_in(self, captured: tf.Tensor) -> tf.Tensor:
        """What the computation's graph uses for a tensor that the function captured outside."""
        variable = self._variables.get(id(captured), _scratches.get(id(captured)))
        if variable is not None:
            # By the raw operation: a tf.Variable would be given an initial value on every call, which is never read.
            name = tf.compat.v1.get_default_graph().unique_name("portable")
            return tf.raw_ops.VarHandleOp(dtype=variable.dtype, shape=variable.shape, shared_name=name)
        if captured.dtype == tf.resource:
            raise ValueError("the function uses a variable or table that does not belong to its model")
        return tf.constant(captured.numpy())


def _tensors(argument: Any) -> list[tf.Tensor]:
    leaves = tf.nest.flatten(argument)
    return [
        tf.data.experimental.to_variant(leaf) if isinstance(leaf, tf.data.Dataset) else tf.convert_to_tensor(leaf)
        for leaf in leaves
    ]
