"""FedFA (Zhou and Konukoglu 2023): FedAvg whose clients vary the statistics of their feature maps.

Behind each stage of the network, with probability p in each step, the mean μ and deviation σ of every channel of every
image are drawn anew around their values, from normal distributions whose variance is that over the batch, times 1 + γ;
γ is large for channels whose statistics differ between the clients, which the server remembers and tells.
With p = 0 it is FedAvg. (`stages_of` says where; on stored feature maps it is the input.)

Deviations: a client's momentum averages of μ and σ begin anew every round, because clients keep nothing, and are
corrected for their start as Adam's moments are; they follow every step, whether or not it augments. The variance over
clients is weighted by examples and not corrected for their number, nor is that over pixels, of which there may be one.
It is taken channel by channel, as the paper says; the authors' code takes one for a whole stage, so that γ is always 1.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.errors import UserError
from tffapps.federated.lazy import np, tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.portable import Scratch
    from tffapps.federated.task import Task

EPSILON = 1e-6
_NEXT_ROUND = -1  # folded into the key by the server; clients fold their positions into it, from 0 on


class Moments(NamedTuple):
    """Of every channel, over space."""

    mean: tf.Tensor  # (images, channels)
    deviation: tf.Tensor


@dataclasses.dataclass(frozen=True)
class FedFA(Method):
    name: ClassVar[str] = "fedfa"

    fa_probability: float = setting(0.5, "FedFA: how often a stage is augmented, p (its code)", least=0, most=1)
    fa_momentum: float = setting(0.99, "FedFA: momentum of a client's averages (its code)", least=0, below=1)

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """A random key, and for each stage the variances over clients of means and of deviations."""

        key = np.random.SeedSequence(seed).generate_state(2).astype(np.int32)
        return [key, *(np.ones(count, np.float32) for count in _channels(task.model) for _ in Moments._fields)]

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        """For each stage the averages of means, their squares, and the same of deviations."""
        return [tf.TensorSpec([count], tf.float32) for count in _channels(task.model) for _ in range(4)]

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        key = tf.random.experimental.stateless_fold_in(memory[0], _NEXT_ROUND, alg="philox")
        return [key, *(tf.nn.relu(square - mean**2) for mean, square in zip(sent[0::2], sent[1::2]))]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from models.stages import segments, stages_of
        from tffapps.federated.portable import scratch_like

        first, *others = segments(task.model, stages_of(task.model))
        key, *variances = site.memory
        stages = [Moments(*variances[index : index + 2]) for index in range(0, len(variances), 2)]
        averages = [Moments(*map(scratch_like, variance)) for variance in stages]
        weight = scratch_like(tf.TensorSpec([], tf.float32))  # the same average of ones: 1 − m^steps
        rooms = [room for average in averages for room in average]
        for room in (*rooms, weight):
            room.fill_with_zeros()

        def single(x: tf.Tensor) -> tf.Tensor:
            """Moments need the digits, whatever the layers compute in."""
            return tf.cast(x, tf.float32)

        def forward(images: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
            self._follow(weight, 1.0)
            x = single(first(images, training=True))
            for stage, (rest, over_clients, average) in enumerate(zip(others, stages, averages)):
                moments = moments_of(x)
                for room, values in zip(average, moments):
                    self._follow(room, tf.reduce_mean(tf.stop_gradient(values), axis=0))
                drawn = _folded(key, site.position, step, stage)
                x = single(rest(self.sometimes_augmented(x, moments, over_clients, drawn), training=True))
            return x

        done = self.train(task, data, forward=forward)
        means = [tf.math.divide_no_nan(room.read(), weight.read()) for room in rooms]
        return done._replace(sent=tuple(value for mean in means for value in (mean, mean**2)))

    def _follow(self, average: Scratch, value: tf.Tensor | float) -> None:
        average.assign(self.fa_momentum * average.read() + (1 - self.fa_momentum) * value)

    def sometimes_augmented(self, x: tf.Tensor, moments: Moments, over_clients: Moments, key: tf.Tensor) -> tf.Tensor:
        draw, *noise = tf.unstack(tf.random.experimental.stateless_split(key, 3, alg="philox"))

        def augmented() -> tf.Tensor:
            normal = (tf.random.stateless_normal(tf.shape(moments.mean), seed, alg="philox") for seed in noise)
            return augment(x, moments, over_clients, Moments(*normal))

        return tf.cond(
            tf.random.stateless_uniform([], draw, alg="philox") < self.fa_probability, augmented, lambda: tf.identity(x)
        )


def moments_of(x: tf.Tensor) -> Moments:
    """Of feature maps (images, height, width, channels)."""
    mean, variance = tf.nn.moments(x, axes=[1, 2])
    return Moments(mean, tf.sqrt(variance + EPSILON))


def augment(x: tf.Tensor, moments: Moments, over_clients: Moments, noise: Moments) -> tf.Tensor:
    """The feature maps with other moments: theirs plus `noise` (images, channels) of the right size."""
    new = Moments(*(old + draw * _spread(old, v) for old, draw, v in zip(moments, noise, over_clients)))
    standard = (x - _over_space(moments.mean)) / _over_space(moments.deviation)
    return standard * _over_space(new.deviation) + _over_space(new.mean)


def _over_space(values: tf.Tensor) -> tf.Tensor:
    """(images, channels) for every pixel."""
    return values[:, None, None]


def _spread(values: tf.Tensor, over_clients: tf.Tensor) -> tf.Tensor:
    """Deviation (channels) of the noise for `values` (images, channels), more where clients differ more."""
    share = 1 / (1 + 1 / (over_clients + EPSILON))
    gamma = share / tf.reduce_mean(share)
    count = tf.cast(tf.shape(values)[0], values.dtype)
    variance = tf.reduce_sum((values - tf.reduce_mean(values, axis=0)) ** 2, axis=0) / tf.maximum(count - 1, 1.0)
    return tf.sqrt((gamma + 1) * (variance + EPSILON))


def _folded(key: tf.Tensor, *numbers: tf.Tensor | int) -> tf.Tensor:

    for number in numbers:
        key = tf.random.experimental.stateless_fold_in(key, number, alg="philox")
    return key


def _channels(model: tf.keras.Model) -> list[int]:
    """Of each stage."""
    from models.stages import outputs, stages_of

    try:
        return [output.shape[-1] for output in outputs(model, stages_of(model))]
    except ValueError as error:
        raise UserError(f"--methods fedfa: {error}; leave it out") from error
