"""Cross-client style transfer (CCST, Chen et al. 2023): images in the styles of other clients, by AdaIN.

A client's style is what its images have in common at VGG-19's relu4_1: the mean and deviation of every channel over
all images and places, the paper's "overall domain style". A few hundred numbers, and all that leaves the client.
`transfer` gives an image's activations those moments and decodes them (Huang and Belongie 2017, Eqs 8 and 14).

The decoder is learned. `training_model` has its loss as output (Eqs 11 to 13), so that any federated averaging can
train it: `Task(training_model(…), …, loss=loss_is_output)`. Only the decoder is among its weights.

    x → encoder → t, each image with the moments of the next one in its batch → decoder → y → encoder
    loss = ‖f(y) − t‖² + 10 Σ over relu1_1 … relu4_1 of ‖moments of y − moments of the next image‖² + 1000 ‖x′ − x‖²

Deviations: the last term, x′ being x encoded and decoded, holds the decoder to the image itself: tissue has little
else than detail. Styles come from the same client's batch, there being no public paintings. Errors of activations are
divided by the mean square of what they are compared with, which does for the authors' VGG of unit activations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import cv2
import numpy as np
import tensorflow as tf

from models import vgg
from models.adain import EPSILON, LAYER, SCALE, adain, moments

STYLE_LAYERS = ("relu1_1", "relu2_1", "relu3_1", LAYER)
STYLE_WEIGHT = 10.0  # Huang and Belongie's code; "λ" of Eq. 11
RECONSTRUCTION_WEIGHT = 1000.0  # our choice: with 100, drawn tissue came back with half as much error again
_PIXELS = 2**20  # decoded at once: about 1 GB at width 64
_TINY = 1e-8  # keeps quotients finite

Moments = tuple[tf.Tensor, tf.Tensor]  # mean and deviation, each (n, c)


class Style(NamedTuple):
    mean: np.ndarray  # float32 (c,)
    std: np.ndarray  # float32 (c,)


def style_of(encoder: tf.keras.Model, batches: Iterable[np.ndarray]) -> Style:
    """The style of all images together; batches are uint8 (n, height, width, 3), of any sizes, seen once."""
    count, total, squares = 0, np.zeros(()), np.zeros(())
    for images in batches:
        _check(images)
        features = np.asarray(encoder(_as_float(images)), np.float64)
        count += features.size // features.shape[-1]
        total = total + features.sum(axis=(0, 1, 2))
        squares = squares + np.square(features).sum(axis=(0, 1, 2))
    if not count:
        raise ValueError("no images: a style needs at least one")
    mean = total / count
    variance = np.maximum(squares / count - mean**2, 0)
    return Style(mean.astype(np.float32), np.sqrt(variance + EPSILON).astype(np.float32))


def enlarged(images: np.ndarray, side: int) -> np.ndarray:
    """Images (n, height, width, 3) resized bilinearly to so many pixels a side."""
    _check(images)
    return np.stack([cv2.resize(image, (side, side), interpolation=cv2.INTER_LINEAR) for image in images])


def transfer(
    encoder: tf.keras.Model,
    decoder: tf.keras.Model,
    images: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    alpha: float = 1.0,
    side: int = 0,
) -> np.ndarray:
    """uint8 images (n, height, width, 3) in the styles `mean`, `std`: one for each image (n, c), or for all (c,).

    `alpha` mixes the new activations with the image's own (Eq. 14): 0 is the image as the decoder sees it. With `side`
    the networks see the images `enlarged`, and what they give is made as small again: a small patch keeps its detail.
    """
    if side:
        large = transfer(encoder, decoder, enlarged(images, side), mean, std, alpha)
        size = images.shape[2], images.shape[1]
        return np.stack([cv2.resize(picture, size, interpolation=cv2.INTER_AREA) for picture in large])
    _check(images)
    count, height, width = images.shape[:3]
    mean, std = (np.broadcast_to(part, (count, encoder.output_shape[-1])).astype(np.float32) for part in (mean, std))
    result = np.empty_like(images)
    step = max(1, _PIXELS // (height * width))
    for part in (slice(start, start + step) for start in range(0, count, step)):
        features = encoder(_as_float(_padded(images[part])))
        features = alpha * adain(features, mean[part], std[part]) + (1 - alpha) * features
        pictures = np.asarray(decoder(features))[:, :height, :width]
        result[part] = np.rint(pictures * 255).astype(np.uint8)
    return result


def losses(
    encoder: tf.keras.Model,
    decoder: tf.keras.Model,
    images: tf.Tensor,
    style_mean: tf.Tensor,
    style_std: tf.Tensor,
    style_weight: float = STYLE_WEIGHT,
) -> tf.Tensor:
    """Content and style loss (n,) of float images in [0,1] for styles (n, c) of which only relu4_1 is known."""
    target = adain(encoder(images), style_mean, style_std)
    return _judge([encoder(decoder(target))], target, [(style_mean, style_std)], style_weight)


def reconstruction(decoder: tf.keras.Model, features: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Mean squared error (n,) of images decoded from their own activations."""
    return tf.reduce_mean(tf.square(decoder(features) - images), axis=[1, 2, 3])


def training_model(
    encoder: tf.keras.Model,
    decoder: tf.keras.Model,
    style_weight: float = STYLE_WEIGHT,
    reconstruction_weight: float = RECONSTRUCTION_WEIGHT,
) -> tf.keras.Model:
    """Float images in [0,1] to their losses (n,). Its weights are the decoder's; the encoder's are constants in it."""
    return AdaINTrainer(encoder, decoder, style_weight, reconstruction_weight)


def loss_is_output(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The loss that goes with `training_model`."""
    del labels
    return outputs


class AdaINTrainer(tf.keras.Model):
    def __init__(
        self, encoder: tf.keras.Model, decoder: tf.keras.Model, style_weight: float, reconstruction_weight: float
    ) -> None:
        super().__init__(name="adain_trainer")
        self.encoder = vgg.frozen(vgg.taps(encoder, STYLE_LAYERS))
        self.decoder = decoder
        self.style_weight, self.reconstruction_weight = style_weight, reconstruction_weight

    def call(self, images: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        size = tf.shape(images)[1:3] // SCALE * SCALE
        images = images[:, : size[0], : size[1]]  # what the decoder can give back
        levels = self.encoder(images)
        # Of a single image the next one is itself, and the loss as good.
        styles = [(tf.roll(mean, -1, 0), tf.roll(std, -1, 0)) for mean, std in map(moments, levels)]
        target = adain(levels[-1], *styles[-1])
        loss = _judge(self.encoder(self.decoder(target)), target, styles, self.style_weight)
        return loss + self.reconstruction_weight * reconstruction(self.decoder, levels[-1], images)


def _judge(levels: Sequence[tf.Tensor], target: tf.Tensor, styles: Sequence[Moments], style_weight: float) -> tf.Tensor:
    """Losses (n,) of pictures whose activations are `levels`, the last one LAYER's; `styles` are for each of them."""
    content = _relative(levels[-1], target)
    style = [_relative(tf.stack(moments(level), 1), tf.stack(wanted, 1)) for level, wanted in zip(levels, styles)]
    return content + style_weight * tf.add_n(style)


def _relative(found: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
    """Squared error of each example as a share of the wanted values' squares."""
    axes = list(range(1, len(wanted.shape)))
    error, size = (tf.reduce_mean(tf.square(x), axis=axes) for x in (found - wanted, wanted))
    return error / (size + _TINY)


def _check(images: np.ndarray) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or 0 in images.shape[1:]:
        raise TypeError(
            f"uint8 images of shape (n, height, width, 3) are needed, not {images.dtype} {images.shape}; "
            "bring floats to 0..255 and round them, give one image as image[None]"
        )


def _as_float(images: np.ndarray) -> tf.Tensor:
    return tf.constant(images, tf.float32) / 255.0


def _padded(images: np.ndarray) -> np.ndarray:
    """Reflected at the right and at the bottom up to a size the decoder can give back."""
    more = [max(2 * SCALE, -(-side // SCALE) * SCALE) - side for side in images.shape[1:3]]
    return np.pad(images, [(0, 0), (0, more[0]), (0, more[1]), (0, 0)], mode="reflect") if any(more) else images
