"""Update inversion: can a client's images be made again from the update that it sent?

The attacker knows the network, the weights that the round began with, and the labels; that is more than a server knows.
  analytic   where the first trained layer is dense and sees the input itself: the update of its weights over that of
             its biases is the input, for a single example and a single step exactly (Geiping et al. 2020, section 3)
  matching   images whose gradient points where the update does, cosine and all, smooth by total variation, found by
             Adam (Geiping et al. 2020, Eq. 4)

What is made is compared with all images of the client, and with what anybody could have had without the update: the
mean of other images, and the nearest of them. Only what is nearer than these was taken from the update.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tffapps.evaluation.image_quality import ssim

ANALYTIC, MATCHING = "analytic", "matching"
_SMOOTH, _RATE = 1e-3, 0.05
_CLEAR = 3.0  # decibels nearer than the nearest other image: half of its squared error


@dataclasses.dataclass(frozen=True)
class Inverted:
    """How near what was made comes to an image of the client."""

    attack: str
    made: int
    psnr: float  # of the best one, in decibels
    ssim: float  # of that one; NaN for what is no picture
    psnr_of_mean: float  # the mean of other images, for the image of the client that it is nearest to
    psnr_of_nearest: float  # the nearest of the others, likewise

    @property
    def recovered(self) -> bool:
        return self.psnr > max(self.psnr_of_mean, self.psnr_of_nearest) + _CLEAR


def judged(attack: str, made: np.ndarray, images: np.ndarray, others: np.ndarray) -> Inverted:
    """Of what was made, the client's images and other ones, (n, …) each."""
    span = float(images.max() - images.min()) or 1.0
    errors = _errors(made, images)
    best, own = np.unravel_index(errors.argmin(), errors.shape)
    mean = others.mean(axis=0, keepdims=True)
    similarity = float("nan")
    if images.ndim == 4 and images.shape[-1] == 3 and min(images.shape[1:3]) >= 3:
        pair = [_levels(each, images) for each in (images[own : own + 1], made[best : best + 1])]
        similarity = float(ssim(*pair)[0])
    return Inverted(
        attack, len(made), _decibels(errors.min(), span), similarity,
        _decibels(_errors(mean, images).min(), span), _decibels(_errors(others, images).min(), span),
    )  # fmt: skip


def analytic(model: tf.keras.Model, update: Sequence[np.ndarray]) -> np.ndarray | None:
    """One input, where the network is such that its update gives one away; None for another network."""
    layer = next((each for each in model.layers if each.weights), None)
    before = model.layers[: model.layers.index(layer)] if layer is not None else []
    plain = (tf.keras.layers.InputLayer, tf.keras.layers.Flatten, tf.keras.layers.Reshape)
    if type(layer) is not tf.keras.layers.Dense or not layer.use_bias or not all(isinstance(e, plain) for e in before):
        return None
    places = [id(variable) for variable in model.trainable_variables]
    if id(layer.kernel) not in places:
        return None
    kernel, bias = update[places.index(id(layer.kernel))], update[places.index(id(layer.bias))]
    unit = int(np.abs(bias).argmax())
    if not bias[unit]:
        return None
    return (kernel[:, unit] / bias[unit]).reshape(1, *model.input_shape[1:])


def matching(
    model: tf.keras.Model,
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    update: Sequence[np.ndarray],
    labels: np.ndarray,
    bounds: tuple[float, float],
    *,
    steps: int,
    seed: int = 0,
) -> np.ndarray:
    """As many inputs as there are labels, for a model that has the weights that the round began with.

    Args:
      model: its weights and statistics are left as they are.
      loss: (labels, outputs) -> one value for each example.
      update: of the trained weights.
      labels: of the inputs to make.
      bounds: the smallest and the largest value of an input.
      steps: of Adam.
      seed: of the noise that it begins with.
    """
    low, high = bounds
    shape = (len(labels), *model.input_shape[1:])
    middle, spread = (low + high) / 2, (high - low) / 10
    inputs = tf.Variable(np.random.default_rng(seed).normal(middle, spread, shape).astype(np.float32))
    direction = [tf.constant(-np.asarray(value, np.float32)) for value in update]
    falling = tf.keras.optimizers.schedules.CosineDecay(_RATE * (high - low), steps)
    optimizer = tf.keras.optimizers.Adam(falling)
    kept = [variable.numpy() for variable in model.non_trainable_variables]

    @tf.function
    def step() -> None:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as tape:
                mean = tf.reduce_mean(loss(labels, model(inputs, training=True)))
            gradients = tape.gradient(mean, model.trainable_variables)
            distance = 1.0 - _cosine(gradients, direction)
            total = distance + _SMOOTH * _roughness(inputs) / (high - low)
        # Their signs: far from the image gradients are tiny, and Adam alone would stay there.
        optimizer.apply_gradients([(tf.sign(outer.gradient(total, inputs)), inputs)])
        inputs.assign(tf.clip_by_value(inputs, low, high))

    for _ in range(steps):
        step()
    for variable, value in zip(model.non_trainable_variables, kept):
        variable.assign(value)
    return inputs.numpy()


def _roughness(inputs: tf.Variable) -> tf.Tensor:
    """Total variation a number; 0 of what has no height and width."""
    if inputs.shape.rank != 4:
        return tf.constant(0.0)
    return tf.reduce_mean(tf.image.total_variation(inputs)) / inputs.shape[1:].num_elements()


def _cosine(first: Sequence[tf.Tensor], second: Sequence[tf.Tensor]) -> tf.Tensor:
    product = tf.add_n([tf.reduce_sum(a * b) for a, b in zip(first, second)])
    return tf.math.divide_no_nan(product, tf.linalg.global_norm(first) * tf.linalg.global_norm(second))


def _errors(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mean squared ones of every pair: (n, m)."""
    a, b = (each.reshape(len(each), -1).astype(np.float64) for each in (first, second))
    squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.maximum(squares, 0) / a.shape[1]


def _decibels(error: float, span: float) -> float:
    return float(10 * np.log10(span**2 / max(error, 1e-12)))


def _levels(images: np.ndarray, like: np.ndarray) -> np.ndarray:
    low, high = float(like.min()), float(like.max())
    return np.clip((images - low) / ((high - low) or 1.0) * 255, 0, 255).astype(np.uint8)
