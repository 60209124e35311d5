"""Cloaks: changes of a few grey levels that make an image's style look like another to a network.

FedStyle (Ran et al., Fig. 1(a)) cloaks training images with Mist (Liang and Wu 2023), which needs a latent-diffusion
model. This stands in for it and is not Mist: projected signed-gradient steps (Madry et al. 2018) on the pixels, no
channel of which moves by more than `epsilon` grey levels, change the Gram matrices of VGG-19's activations

    towards those of a target style, or, without a target, away from the image's own.

The style loss is that of `style_transfer` (FNST, Eq. 6). Many images at once, and all steps in one compiled function:
the losses of a batch are summed, so that no image's gradient depends on another's. Of all steps the best is kept, image
by image. An image's own style is a place without slope, so without a target the steps start from noise within the
budget, which is drawn from the image itself: it is the same in whatever company.

A cloak is made for the pixels as they are, so write PNGs of the size a network is given. On drawn paintings of 64 × 64
pixels, with random filters of width 16, resizing to 48 × 48 and back took 95 % off the style loss that steps away from
an image's own style had made, and JPEG of quality 90 took 93 %.

    python -m preprocessing.cloak IMAGES -o OUT [--epsilon 8] [--steps 20] [--weights …] [--target FOLDER]
"""

from __future__ import annotations

if __name__ == "__main__":  # before NumPy and TensorFlow are imported: --help needs neither
    from preprocessing.cloak_command import main

    raise SystemExit(main())

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from preprocessing.cloak_settings import CloakSettings
from preprocessing.gram import check, gram, positions, taps
from preprocessing.style_transfer import style_loss

__all__ = ["CloakSettings", "Losses", "batches", "cloak", "optimiser"]

_DEFAULT = CloakSettings()
_ACTIVATIONS = 2**25  # of the first layer, at once: about 2 GB with what the gradient needs


class Losses(NamedTuple):
    """The style loss of each image (n,) against the target, or against the image as it was, where there is none."""

    start: np.ndarray
    end: np.ndarray


def cloak(
    encoder: tf.keras.Model,
    images: np.ndarray,
    targets: Sequence[np.ndarray] | None = None,
    settings: CloakSettings = _DEFAULT,
    places: Sequence[int] | None = None,
) -> tuple[np.ndarray, Losses]:
    """Cloaked uint8 images like `images` (n, height, width, 3), within the budget.

    `encoder` is a `vgg.build` up to relu5_1; `targets` are Gram matrices of its (n, c, c), or (1, c, c) for all images,
    for each of LAYERS; `places` their `Grams.positions`, unless measured at the images' size.
    """
    check(images, 0)
    done = list(batches(encoder, images, targets, settings, places))
    if not done:
        return images[:0].copy(), Losses(*np.empty((2, 0), np.float32))
    found, losses = zip(*done)
    return np.concatenate(found), Losses(*(np.concatenate(part) for part in zip(*losses)))


def batches(
    encoder: tf.keras.Model,
    images: np.ndarray,
    targets: Sequence[np.ndarray] | None = None,
    settings: CloakSettings = _DEFAULT,
    places: Sequence[int] | None = None,
) -> Iterator[tuple[np.ndarray, Losses]]:
    """`cloak` as it comes, as many images at a time as memory allows."""
    check(images, 0)
    count, height, width = images.shape[:3]
    if targets is not None and any(len(level) not in (1, count) for level in targets):
        raise ValueError(f"{len(targets[0])} target styles for {count} images: give one for all, or one for each")
    own = positions(height, width)
    scales = [here / there for here, there in zip(own, places or own)]
    run = optimiser(encoder, targets is None)
    budget = tf.constant(settings.epsilon, tf.float32)
    stride = settings.reach * budget / settings.steps
    step = max(1, _ACTIVATIONS // (height * width * encoder.get_layer("conv1_1").filters))
    for rows in (slice(first, first + step) for first in range(0, count, step)):
        part = images[rows]
        start = part if targets is not None else part + _noise(part, settings)
        wanted = [
            tf.constant((level if len(level) == 1 else level[rows]) * scale, tf.float32)
            for level, scale in zip(targets or [], scales)
        ]
        x, p = (tf.constant(pixels, tf.float32) for pixels in (start, part))
        found, losses = run(x, p, wanted, budget, stride, tf.constant(settings.steps))
        yield found.numpy().astype(np.uint8), Losses(*losses.numpy())


@functools.lru_cache(maxsize=8)  # tracing takes seconds
def optimiser(encoder: tf.keras.Model, away: bool) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    """Compiled: start and images (n, height, width, 3) in grey levels, Gram matrices, the budget, the length of a step
    and how many there are → images, and `Losses` as (2, n).

    With `away` the images' own Gram matrices are used, and the loss is raised instead of lowered.
    """
    levels = taps(encoder)
    sign = -1.0 if away else 1.0

    @tf.function(reduce_retracing=True)
    def run(
        start: tf.Tensor,
        images: tf.Tensor,
        wanted: list[tf.Tensor],
        budget: tf.Tensor,
        stride: tf.Tensor,
        steps: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if away:
            wanted = [gram(level) for level in levels(images / 255.0)]
        low = tf.maximum(images - budget, 0.0)
        high = tf.minimum(images + budget, 255.0)

        def judge(x: tf.Tensor) -> tf.Tensor:
            return style_loss(levels(x / 255.0), wanted)

        def keep(x: tf.Tensor, loss: tf.Tensor, best: tf.Tensor, least: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            better = loss < least
            return tf.where(better[:, None, None, None], x, best), tf.where(better, loss, least)

        def step(number: tf.Tensor, x: tf.Tensor, best: tf.Tensor, least: tf.Tensor) -> tuple[tf.Tensor, ...]:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = sign * judge(x)
            best, least = keep(x, loss, best, least)
            x = tf.clip_by_value(x - stride * tf.sign(tape.gradient(loss, x)), low, high)
            return number + 1, x, best, least

        x = tf.clip_by_value(start, low, high)
        first = (tf.constant(0), x, x, tf.fill(tf.shape(x)[:1], np.float32(np.inf)))
        _, x, best, least = tf.while_loop(lambda number, *_: number < steps, step, first)
        best, _ = keep(x, sign * judge(x), best, least)
        best = tf.round(best)  # the bounds are whole numbers: it stays within them
        return best, tf.stack([judge(images), judge(best)])

    return run


def _noise(images: np.ndarray, settings: CloakSettings) -> np.ndarray:
    """Each image's own, whatever batch it is in: grey levels within the budget, float32 like `images`."""

    def drawn(image: np.ndarray) -> np.ndarray:
        digest = np.frombuffer(hashlib.sha256(image.tobytes()).digest(), "<u4")
        rng = np.random.default_rng([settings.seed, *digest.tolist()])
        return (2 * rng.random(image.shape, np.float32) - 1) * settings.epsilon

    return np.stack([drawn(image) for image in images])
