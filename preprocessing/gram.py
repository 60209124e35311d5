"""Gram matrices of VGG-19's activations: an image's style without the places (Gatys et al. 2016; FNST, Eqs 3 and 4).

With F (channels × places) the activations of a layer, A = F Fᵀ says which channels are active at the same places, and
not where. Nothing is divided out: Eq. 5 divides by the numbers of channels and places, which `Grams` carries along.

    python -m preprocessing.gram IMAGES -o grams.npz [--weights random|imagenet|FILE] [--label NAME]
"""

from __future__ import annotations

if __name__ == "__main__":  # before NumPy and TensorFlow are imported: --help needs neither
    from preprocessing.gram_command import main

    raise SystemExit(main())

import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from models import vgg
from preprocessing.gram_files import Grams
from preprocessing.style_settings import LAYERS, MIN_SIDE

__all__ = ["Grams", "check", "fingerprint", "gram", "grams", "measure", "positions", "taps"]

_ACTIVATIONS = 2**26  # of the first layer, at once: about 1 GB


def measure(
    encoder: tf.keras.Model, images: np.ndarray, label: str, weights: str = "", means: np.ndarray | None = None
) -> Grams:
    """The styles of uint8 images (n, height, width, 3), ready to be sent; `encoder` is a `vgg.build` up to relu5_1.

    `means` are `style_moments.means`, where they are sent too.
    """
    width = encoder.get_layer("conv1_1").filters
    matrices = grams(taps(encoder), images)
    return Grams(matrices, positions(*images.shape[1:3]), label, width, weights, fingerprint(encoder), means)


def taps(encoder: tf.keras.Model) -> tf.keras.Model:
    return vgg.taps(encoder, LAYERS)


def grams(encoder_taps: tf.keras.Model, images: np.ndarray) -> list[np.ndarray]:
    """A for each tap, float32 (n, c, c), of uint8 images (n, height, width, 3)."""
    check(images)
    step = max(1, _ACTIVATIONS // (images[0].size // 3 * encoder_taps.output_shape[0][-1]))
    parts = [
        [gram(level).numpy() for level in encoder_taps(tf.constant(images[start : start + step], tf.float32) / 255.0)]
        for start in range(0, len(images), step)
    ]
    return [np.concatenate(levels) for levels in zip(*parts)]


def gram(features: tf.Tensor) -> tf.Tensor:
    """Activations (n, height, width, c) to A (n, c, c): Eqs 3 and 4."""
    flat = tf.reshape(features, [tf.shape(features)[0], -1, features.shape[-1]])
    return tf.matmul(flat, flat, transpose_a=True)


def positions(height: int, width: int) -> tuple[int, ...]:
    """M of Eq. 5: places of each of LAYERS for images of this size. Pooling halves the sides and rounds down."""
    return tuple((height >> pools) * (width >> pools) for pools in range(len(LAYERS)))


def fingerprint(encoder: tf.keras.Model) -> str:
    """SHA-256 of all that Gram matrices depend on: weights as far as the last of LAYERS, and the preprocessing."""
    preprocess = encoder.get_layer("preprocess")
    known = hashlib.sha256(str("torch" if preprocess.torch else preprocess.caffe).encode())
    for layer in encoder.layers:
        for array in layer.get_weights():
            known.update(np.ascontiguousarray(array, "<f4").tobytes())
        if layer.name == LAYERS[-1]:
            break
    return known.hexdigest()


def check(images: np.ndarray, minimum: int = 1) -> None:
    """That these are images that reach the last layer."""
    shape: Sequence[int] = images.shape
    if images.dtype != np.uint8 or len(shape) != 4 or shape[3] != 3 or shape[0] < minimum or min(shape[1:3]) < MIN_SIDE:
        raise TypeError(
            f"uint8 images of shape (n, height, width, 3), at least {minimum} of {MIN_SIDE} × {MIN_SIDE} pixels, are "
            f"needed, not {images.dtype} {images.shape}; give one image as image[None]"
        )
