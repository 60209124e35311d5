"""Images in the styles of others, known by their Gram matrices alone (Gatys et al. 2016; FNST, Eqs 1, 2, 5 and 6).

Pixels are optimised until VGG-19 sees the content of one image and the Gram matrices of another:

    x = noise or the content image;   minimise α · content(x) + β · Σ over relu1_1 … relu5_1 of E / 5

Many images at once, and all steps in one compiled function: the losses of a batch are summed, so that no image's
gradient depends on another's.

Deviations: α weighs the mean of Eq. 2 (see `StyleSettings`). Gram matrices of images of another size are scaled by the
numbers of places. Both optimisers keep pixels in [0, 1]: Adam clips them at every step, `box_lbfgs` projects. XLA is
not used: its convolutions on CPUs are far slower (20 steps for 4 images of 64 × 64 at width 16 took 16 s, without it
0.6 s). Nor is half size first: what is made larger afterwards has lost the fine texture that style is made of (from
noise, 100 steps of Adam at 64 × 64 and 60 at 128 × 128 came to the loss of 65 at 128 × 128).

    python -m preprocessing.style_transfer --content FOLDER --grams FILE -o OUT
"""

from __future__ import annotations

if __name__ == "__main__":  # before NumPy and TensorFlow are imported: --help needs neither
    from preprocessing.style_transfer_command import main

    raise SystemExit(main())

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models import vgg
from models.precision import converted
from preprocessing import box_lbfgs
from preprocessing.gram import check, gram, positions
from preprocessing.style_settings import CONTENT_LAYER, LAYERS, StyleSettings, settings_for

__all__ = [
    "Losses",
    "StyleSettings",
    "all_pairs",
    "batches",
    "content_loss",
    "layer_loss",
    "optimiser",
    "settings_for",
    "style_loss",
    "transfer",
]

_DEFAULT = StyleSettings()
_ACTIVATIONS = 2**25  # of the first layer, at once: about 2 GB with what the gradient needs
_DECAY, _DECAY_SQUARES, _TINY = 0.9, 0.999, 1e-12  # Adam's; gradients can be far smaller than its usual 1e-8


class Losses(NamedTuple):
    """Of Eqs 2 and 6, unweighted, for each image (k,)."""

    content_start: np.ndarray
    content_end: np.ndarray
    style_start: np.ndarray
    style_end: np.ndarray


def transfer(
    encoder: tf.keras.Model,
    contents: np.ndarray,
    grams: Sequence[np.ndarray],
    pairs: np.ndarray | None = None,
    settings: StyleSettings = _DEFAULT,
    places: Sequence[int] | None = None,
) -> tuple[np.ndarray, Losses]:
    """uint8 images (k, height, width, 3), one for each of `pairs` (k, 2): rows of `contents` and of `grams`.

    `encoder` is a `vgg.build` up to relu5_1, `contents` uint8 (n, height, width, 3), `grams` (m, c, c) for each of
    LAYERS, measured by the same VGG; `places` are their `Grams.positions`, unless measured at the contents' size.
    Without `pairs`, every content with every style, a content's own together.
    """
    check(contents)
    if pairs is None:
        pairs = all_pairs(len(contents), len(grams[0]))
    done = list(batches(encoder, contents, grams, pairs, settings, places))
    if not done:
        return contents[:0].copy(), Losses(*np.empty((4, 0), np.float32))
    images, losses = zip(*done)
    return np.concatenate(images), Losses(*(np.concatenate(part) for part in zip(*losses)))


def all_pairs(contents: int, styles: int) -> np.ndarray:
    """(contents · styles, 2)"""
    return np.indices((contents, styles)).reshape(2, -1).T


def batches(
    encoder: tf.keras.Model,
    contents: np.ndarray,
    grams: Sequence[np.ndarray],
    pairs: np.ndarray,
    settings: StyleSettings = _DEFAULT,
    places: Sequence[int] | None = None,
) -> Iterator[tuple[np.ndarray, Losses]]:
    """`transfer` as it comes, as many images at a time as memory allows."""
    check(contents)
    height, width = contents.shape[1:3]
    own = positions(height, width)
    scales = [here / there for here, there in zip(own, places or own)]
    run = optimiser(encoder, settings)
    step = max(1, _ACTIVATIONS // (height * width * encoder.get_layer("conv1_1").filters))
    for part in (pairs[start : start + step] for start in range(0, len(pairs), step)):
        rows, styles = part.T
        wanted = [tf.constant(level[styles] * scale, tf.float32) for level, scale in zip(grams, scales)]
        p = tf.constant(contents[rows], tf.float32) / 255.0
        start = _noise(part, (height, width), settings.seed) if settings.init == "noise" else p
        x, losses = run(start, p, wanted)
        yield np.rint(x.numpy() * 255).astype(np.uint8), Losses(*losses.numpy())


@functools.lru_cache(maxsize=8)  # tracing takes seconds
def optimiser(encoder: tf.keras.Model, settings: StyleSettings) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """Compiled: start and contents (k, height, width, 3) in [0,1], Gram matrices → images, and `Losses` as (4, k)."""
    taps, exact = taps_of(encoder, settings.precision), taps_of(encoder)

    @tf.function(reduce_retracing=True)  # the last batch of many is smaller
    def run(start: tf.Tensor, contents: tf.Tensor, wanted: list[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        judge, _ = losses_of(exact, contents, wanted, settings)
        _, loss = losses_of(taps, contents, wanted, settings)
        objective = tf.function(loss, experimental_attributes={"_noinline": True})  # in several places: once is enough
        x = minimise(objective, start, settings)
        before, after = judge(start), judge(x)
        return x, tf.stack([before[0], after[0], before[1], after[1]])

    return run


def taps_of(encoder: tf.keras.Model, precision: str = "float32") -> tf.keras.Model:
    """Images → the activations of style and of content, of a VGG that computes in this precision."""
    return vgg.taps(converted(encoder, precision, stay=("preprocess",)), (*LAYERS, CONTENT_LAYER))


Judge = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


def losses_of(
    taps: tf.keras.Model, contents: tf.Tensor, wanted: Sequence[tf.Tensor], settings: StyleSettings
) -> tuple[Judge, Judge]:
    """Of images: content and style loss (k,); what is minimised (k,) and its gradient."""
    target = tf.cast(taps(contents)[-1], tf.float32)
    divisor = tf.cast(tf.size(target[0]), tf.float32) if settings.content == "mean" else 1.0

    def judge(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        *levels, deep = (tf.cast(activations, tf.float32) for activations in taps(x))
        return content_loss(deep, target), style_loss(levels, wanted)

    def loss_and_gradient(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            content, style = judge(x)
            loss = settings.content_weight / divisor * content + settings.style_weight * style
        return loss, tape.gradient(loss, x)

    return judge, loss_and_gradient


def minimise(objective: box_lbfgs.Objective, start: tf.Tensor, settings: StyleSettings) -> tf.Tensor:
    """The images after the steps of the settings' optimiser."""
    if settings.optimizer == "adam":
        return _adam(objective, start, settings)
    return box_lbfgs.minimise(objective, start, settings.steps)


def content_loss(features: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Eq. 2 of each image (k,)."""
    return 0.5 * tf.reduce_sum(tf.square(features - target), axis=[1, 2, 3])


def layer_loss(features: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
    """E of Eq. 5 for each image (k,): activations (k, height, width, c) against Gram matrices (k, c, c)."""

    @tf.custom_gradient
    def loss(features: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        size = tf.cast(tf.reduce_prod(tf.shape(features)[1:]), tf.float32)  # N M; first, for squares stay small then
        apart = (gram(features) - wanted) / (2.0 * size)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            """F (G − A) / (N M)²: one product, where TensorFlow would make two, for each factor of F Fᵀ."""
            flat = tf.reshape(features, [tf.shape(features)[0], -1, features.shape[-1]])
            slope = tf.matmul(flat, apart * (2.0 / size) * upstream[:, tf.newaxis, tf.newaxis])
            return tf.reshape(slope, tf.shape(features))

        return tf.reduce_sum(tf.square(apart), axis=[1, 2]), gradient

    return loss(features)


def style_loss(levels: Sequence[tf.Tensor], wanted: Sequence[tf.Tensor]) -> tf.Tensor:
    """Eq. 6 with equal weights (k,)."""
    return tf.add_n([layer_loss(level, matrix) for level, matrix in zip(levels, wanted)]) / len(levels)


def _noise(pairs: np.ndarray, size: tuple[int, int], seed: int) -> tf.Tensor:
    """Each pair's own, whatever batch it is in."""
    drawn = [np.random.default_rng([seed, *pair]).random((*size, 3), np.float32) for pair in pairs.tolist()]
    return tf.constant(np.stack(drawn))


def _adam(objective: box_lbfgs.Objective, x: tf.Tensor, settings: StyleSettings) -> tf.Tensor:
    def step(number: tf.Tensor, x: tf.Tensor, mean: tf.Tensor, squares: tf.Tensor) -> tuple[tf.Tensor, ...]:
        gradient = objective(x)[1]
        mean = _DECAY * mean + (1 - _DECAY) * gradient
        squares = _DECAY_SQUARES * squares + (1 - _DECAY_SQUARES) * tf.square(gradient)
        rate = settings.learning_rate * tf.sqrt(1 - _DECAY_SQUARES**number) / (1 - _DECAY**number)
        x = tf.clip_by_value(x - rate * mean / (tf.sqrt(squares) + _TINY), 0.0, 1.0)
        return number + 1, x, mean, squares

    first = (tf.constant(1.0), x, tf.zeros_like(x), tf.zeros_like(x))
    return tf.while_loop(lambda number, *_: number <= settings.steps, step, first)[1]
