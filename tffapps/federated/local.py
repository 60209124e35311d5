"""Training at one client: plain TensorFlow, nothing of federation."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tffapps.errors import UserError
from tffapps.federated import record_noise
from tffapps.federated.averaged import Averaged
from tffapps.federated.optimizers import LocalOptimizer
from tffapps.federated.over_batches import over_batches
from tffapps.federated.scaling import LossScaling

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
    overflowed: Any = 0.0  # steps that were skipped (`scaling`), a float32


class _Progress(NamedTuple):
    """Between two steps of `train`."""

    optimizer: Any
    scale: Any
    examples: tf.Tensor
    loss_sum: tf.Tensor
    number: tf.Tensor  # of steps taken


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
    scaling: LossScaling | None = None,
    average: float = 0.0,
) -> ClientResult:
    """Trains `model` in place on every batch once; with `steps`, their number, the learning rate falls to zero.

    `forward`, (images, number of the step from 0) -> outputs, takes the place of the model's own forward pass. With
    `private`, gradients are clipped example by example and noised, and the loss is withheld: it is 0. `scaling` is for
    a model that computes in float16: a step that overflows is as if its batch had not been there. `average`: the model
    ends as an average of its weights along the steps (`averaged`).
    """
    if private is not None and forward is not None:
        raise UserError("--record-dp: not with a method that has a forward pass of its own; choose another method")
    scaling, averaged = scaling or LossScaling.none(), Averaged(model, average)
    variables, others = model.trainable_variables, model.non_trainable_variables
    drawn = itertools.count()  # of a step's noises: a rule may ask for gradients more than once
    outputs_of = forward or (lambda images, _: model(images, training=True))

    @tf.function(autograph=False)
    def run(batches: tf.data.Dataset) -> tuple[tf.Tensor, ...]:
        start = [variable.read_value() for variable in variables]

        def one_step(before: _Progress, batch: Any) -> _Progress:
            (images, labels), (state, scale, examples, loss_sum, number) = batch, before

            def loss_and_gradients(statistics: bool = True) -> tuple[tf.Tensor, Tensors]:
                if private is not None:
                    place = tf.cast(number, tf.int32), next(drawn)
                    return tf.constant(0.0), record_noise.gradients(model, loss, images, labels, private, place)
                as_they_were = [] if statistics else [variable.read_value() for variable in others]
                with tf.GradientTape() as tape:
                    mean = tf.reduce_mean(loss(labels, outputs_of(images, tf.cast(number, tf.int32))))
                    total = tf.add_n([mean, *model.losses]) if model.losses else mean
                    scaled = scaling.scaled(total, scale)
                gradients = scaling.unscaled(tape.gradient(scaled, variables), scale)
                for variable, value in zip(others, as_they_were):
                    variable.assign(value)
                return mean, gradients

            undo = scaling.kept(others)
            mean, gradients = rule(loss_and_gradients, variables, start)
            step = functools.partial(optimizer.step, state, variables, gradients, cosine(number, steps))
            state, scale, taken = scaling.step(step, state, gradients, scale, undo)
            averaged.step(number)
            count = taken * tf.cast(tf.shape(labels)[0], tf.float32)
            loss_sum += tf.math.multiply_no_nan(mean, count)
            return _Progress(state, scale, examples + count, loss_sum, number + taken)

        averaged.start()
        first = _Progress(optimizer.start(variables), scaling.start(), *(tf.constant(0.0) for _ in range(3)))
        done = over_batches(one_step, batches, first)
        averaged.finish()
        mean = tf.math.divide_no_nan(done.loss_sum, done.examples)
        return done.examples, mean, done.number, scaling.overflowed(done.scale)

    examples, mean_loss, number, overflowed = run(batches)
    return ClientResult(examples, mean_loss, steps=number, overflowed=overflowed)


def cosine(number: tf.Tensor, steps: tf.Tensor | None) -> tf.Tensor | float:
    """The share of the learning rate at step `number` (from 0) of `steps`: half a cosine from 1 to 0."""
    if steps is None:
        return 1.0
    done = tf.minimum(number / tf.maximum(tf.cast(steps, tf.float32), 1.0), 1.0)
    return 0.5 * (1.0 + tf.cos(math.pi * done))


def confusion(model: tf.keras.Model, batches: tf.data.Dataset) -> tf.Tensor:
    """Counts of examples by true and predicted class: float32 (classes, classes)."""
    classes = model.output_shape[-1]

    def count(counts: tf.Tensor, batch: Any) -> tf.Tensor:
        images, labels = batch
        predicted = tf.argmax(model(images, training=False), axis=-1, output_type=tf.int32)
        return counts + tf.math.confusion_matrix(labels, predicted, classes, dtype=tf.float32)

    @tf.function(autograph=False)
    def run(batches: tf.data.Dataset) -> tf.Tensor:
        return over_batches(count, batches, tf.zeros([classes, classes]))

    return run(batches)
