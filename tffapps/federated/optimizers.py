"""Optimisers of a client's training: they change variables in place, their state lives for one call of it."""

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf
import tensorflow_federated as tff

from tffapps.federated.portable import scratch_like

_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-7  # the defaults of TFF and Keras


class LocalOptimizer(Protocol):
    def start(self, variables: Sequence[tf.Variable]) -> Any:
        """The state before the first step: tensors that a loop can carry."""

    def step(
        self,
        state: Any,
        variables: Sequence[tf.Variable],
        gradients: Sequence[tf.Tensor],
        scale: tf.Tensor | float = 1.0,
    ) -> Any:
        """Changes the variables at `scale` times the learning rate; returns the next state."""


class Functional:
    """Any of `tff.learning.optimizers`."""

    def __init__(self, optimizer: tff.learning.optimizers.Optimizer) -> None:
        self._optimizer = optimizer

    def start(self, variables: Sequence[tf.Variable]) -> Any:
        return self._optimizer.initialize([tf.TensorSpec(v.shape, v.dtype) for v in variables])

    def step(
        self,
        state: Any,
        variables: Sequence[tf.Variable],
        gradients: Sequence[tf.Tensor],
        scale: tf.Tensor | float = 1.0,
    ) -> Any:
        key = tff.learning.optimizers.LEARNING_RATE_KEY
        rate = state[key]
        # Whole tensors of known shapes: an embedding's gradient is a few of its rows, others may have lost their shape.
        dense = [tf.ensure_shape(tf.convert_to_tensor(g), v.shape) for g, v in zip(gradients, variables)]
        state, updated = self._optimizer.next({**state, key: rate * scale}, [v.read_value() for v in variables], dense)
        for variable, value in zip(variables, updated):
            variable.assign(value)
        return type(state)({**state, key: rate})


class Adam:
    """The same numbers as `tff.learning.optimizers.build_adam`, by TensorFlow's own kernel.

    TFF's goes over weights and moments a dozen times in separate operations: with 16 million weights (the thesis's
    head of MobileNetV2) a step takes four times as long.
    """

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate

    def start(self, variables: Sequence[tf.Variable]) -> Any:
        self._moments = [(scratch_like(variable), scratch_like(variable)) for variable in variables]
        for pair in self._moments:
            for moment in pair:
                moment.fill_with_zeros()
        return tf.constant(0.0)

    def step(
        self,
        state: Any,
        variables: Sequence[tf.Variable],
        gradients: Sequence[tf.Tensor],
        scale: tf.Tensor | float = 1.0,
    ) -> Any:
        number = state + 1.0
        for variable, (first, second), gradient in zip(variables, self._moments, gradients):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=tf.cast(_BETA_1**number, variable.dtype),
                beta2_power=tf.cast(_BETA_2**number, variable.dtype),
                lr=tf.cast(self._learning_rate * scale, variable.dtype),
                beta1=tf.cast(_BETA_1, variable.dtype),
                beta2=tf.cast(_BETA_2, variable.dtype),
                epsilon=tf.cast(_EPSILON, variable.dtype),
                grad=tf.convert_to_tensor(gradient),
            )
        return number


class Scaled:
    """Another optimiser at a share of its learning rate, which may be a tensor: a round's own, say."""

    def __init__(self, optimizer: LocalOptimizer, share: tf.Tensor | float) -> None:
        self._optimizer, self._share = optimizer, share

    def start(self, variables: Sequence[tf.Variable]) -> Any:
        return self._optimizer.start(variables)

    def step(
        self,
        state: Any,
        variables: Sequence[tf.Variable],
        gradients: Sequence[tf.Tensor],
        scale: tf.Tensor | float = 1.0,
    ) -> Any:
        return self._optimizer.step(state, variables, gradients, self._share * scale)
