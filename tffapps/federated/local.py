"""Training at one client: plain TensorFlow, nothing of federation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tffapps.errors import UserError
from tffapps.federated import record_noise
from tffapps.federated.optimizers import LocalOptimizer

Tensors = list[tf.Tensor]
# (statistics=True) -> (mean loss of the batch, gradients of the trainable variables), at the variables' present values;
# with statistics=False the moving statistics of BatchNorm stay as they are
LossAndGradients = Callable[..., tuple[tf.Tensor, Tensors]]
# (loss and gradients, trainable variables, what they were when the round began) -> the same pair, changed
GradientRule = Callable[[LossAndGradients, list[tf.Variable], Tensors], tuple[tf.Tensor, Tensors]]


class Counted(NamedTuple):
    """A dataset whose length is known, for a learning rate that falls along it."""

    batches: Any
    steps: Any  # int32

    @classmethod
    def spec(cls, batches: Any) -> Counted:
        return cls(tf.data.DatasetSpec(batches), tf.TensorSpec([], tf.int32))


class Private(NamedTuple):
    """DP-SGD (`record_noise`) in place of the batch's gradient."""

    noise: float  # standard deviation of the sum's noise / clip
    clip: float  # largest norm of one example's gradient
    seed: Any = None  # int32 (2) of the noise; None: from the system


class ClientContext(NamedTuple):
    """What a client is told besides the weights."""

    position: Any  # int32: its number
    memory: list[Any]  # the method's, as the server has it (`Method.first_memory`)
    kept: Any = ()  # list: the method's, as this client left it in its last round (`Method.first_kept`)


class ClientResult(NamedTuple):
    """What a client has to show for a round."""

    examples: tf.Tensor  # seen; its weight in the mean
    loss: tf.Tensor  # mean over them
    extras: tuple[tf.Tensor, ...] = ()  # one scalar for each of the method's report columns
    sent: tuple[tf.Tensor, ...] = ()  # for the server's memory, as `Method.sent_specs` says
    gathered: tuple[tf.Tensor, ...] = ()  # the same, not averaged (`Method.gathered_specs`)
    kept: tuple[tf.Tensor, ...] = ()  # for its own next round (`Method.first_kept`)
    steps: Any = 0.0  # of its optimiser, a float32, where `train` counted them
    weight: Any = 0.0  # a float32 from 0 to 1, where the method has clients count by it (`Method.weighs_clients`)


def train(
    model: tf.keras.Model,
    batches: tf.data.Dataset,
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    optimizer: LocalOptimizer,
    rule: GradientRule,
    steps: tf.Tensor | None = None,
    *,
    forward: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    private: Private | None = None,
) -> ClientResult:
    """Trains `model` in place on every batch once; with `steps`, their number, the learning rate falls to zero.

    `forward`, (images, number of the step from 0) -> outputs, takes the place of the model's own forward pass. With
    `private`, gradients are clipped example by example and noised, and the loss is withheld: it is 0.
    """
    if private is not None and forward is not None:
        raise UserError("--record-dp: not with a method that has a forward pass of its own; choose another method")
    variables, others = model.trainable_variables, model.non_trainable_variables
    drawn = itertools.count()  # of a step's noises: a rule may ask for gradients more than once
    outputs_of = forward or (lambda images, _: model(images, training=True))

    @tf.function
    def run(batches: tf.data.Dataset) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        state = optimizer.start(variables)
        start = [variable.read_value() for variable in variables]
        examples, loss_sum, number = tf.constant(0.0), tf.constant(0.0), tf.constant(0.0)
        for images, labels in iter(batches):  # `iter`: without it TensorFlow reduces the dataset, twice as slow

            def loss_and_gradients(
                statistics: bool = True, images: Any = images, labels: Any = labels, number: Any = number
            ) -> tuple[tf.Tensor, Tensors]:
                if private is not None:
                    place = tf.cast(number, tf.int32), next(drawn)
                    return tf.constant(0.0), record_noise.gradients(model, loss, images, labels, private, place)
                before = [] if statistics else [variable.read_value() for variable in others]
                with tf.GradientTape() as tape:
                    mean = tf.reduce_mean(loss(labels, outputs_of(images, tf.cast(number, tf.int32))))
                    total = tf.add_n([mean, *model.losses]) if model.losses else mean
                gradients = tape.gradient(total, variables)
                for variable, value in zip(others, before):
                    variable.assign(value)
                return mean, gradients

            mean, gradients = rule(loss_and_gradients, variables, start)
            state = optimizer.step(state, variables, gradients, cosine(number, steps))
            number += 1.0
            count = tf.cast(tf.shape(labels)[0], tf.float32)
            examples += count
            loss_sum += count * mean
        return examples, tf.math.divide_no_nan(loss_sum, examples), number

    examples, mean_loss, number = run(batches)
    return ClientResult(examples, mean_loss, steps=number)


def cosine(number: tf.Tensor, steps: tf.Tensor | None) -> tf.Tensor | float:
    """The share of the learning rate at step `number` (from 0) of `steps`: half a cosine from 1 to 0."""
    if steps is None:
        return 1.0
    done = tf.minimum(number / tf.maximum(tf.cast(steps, tf.float32), 1.0), 1.0)
    return 0.5 * (1.0 + tf.cos(math.pi * done))


def confusion(model: tf.keras.Model, batches: tf.data.Dataset) -> tf.Tensor:
    """Counts of examples by true and predicted class: float32 (classes, classes)."""
    classes = model.output_shape[-1]

    @tf.function
    def run(batches: tf.data.Dataset) -> tf.Tensor:
        counts = tf.zeros([classes, classes])
        for images, labels in iter(batches):
            predicted = tf.argmax(model(images, training=False), axis=-1, output_type=tf.int32)
            counts += tf.math.confusion_matrix(labels, predicted, classes, dtype=tf.float32)
        return counts

    return run(batches)
