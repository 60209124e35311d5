"""Adam (Kingma and Ba 2015) by TensorFlow's fused operation: one for each variable, where Keras traces dozens."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

EPSILON = 1e-8


class Adam:
    def __init__(self, variables: Sequence[tf.Variable], learning_rate: float, beta_1: float, beta_2: float) -> None:
        self.rates = learning_rate, beta_1, beta_2
        self.trained = list(variables)
        self.number = tf.Variable(0.0, trainable=False)  # of steps
        self.moments = [[tf.Variable(tf.zeros_like(one), trainable=False) for one in self.trained] for _ in range(2)]

    @property
    def variables(self) -> list[tf.Variable]:
        """What changes besides the trained ones."""
        return [self.number, *self.moments[0], *self.moments[1]]

    def move(self, gradients: Sequence[tf.Tensor]) -> None:
        """One step. To be called inside a `tf.function`, which keeps the order."""
        rate, beta_1, beta_2 = self.rates
        number = self.number.assign_add(1.0)
        powers = tf.pow(beta_1, number), tf.pow(beta_2, number)
        for variable, mean, squares, gradient in zip(self.trained, *self.moments, gradients):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=mean.handle,
                v=squares.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=rate,
                beta1=beta_1,
                beta2=beta_2,
                epsilon=EPSILON,
                grad=gradient,
            )
