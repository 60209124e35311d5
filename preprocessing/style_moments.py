"""Images in the styles of others in one pass: no optimisation, the same Gram matrices.

A Gram matrix over its M places has the second moments of VGG-19's activations. With their means (sent beside it, see
`gram_files`) it has their covariance, which is all that these two want to know of a style at relu4_1:

    adain     every channel is given the style's mean and deviation          (Huang and Belongie 2017, Eq. 8)
    whiten    activations lose their own covariance and are given the style's (Li et al. 2017, Eqs 1 to 3)

The decoder (`models.adain_published`) was trained for a VGG-19 whose channels were each divided by a number. Which
numbers, the two encoders' kernels tell; means are divided by them, Gram matrices by their products.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models import vgg
from models.adain import LAYER, SCALE
from models.adain_published import Pair
from models.vgg import NAMES
from preprocessing.style_settings import LAYERS

HOW = ("adain", "whiten")
LEVEL = LAYERS.index(LAYER)  # of the Gram matrices: the one that is used
_SMALLEST = 1e-5  # of eigenvalues that count: activations have fewer places than channels
_PIXELS = 2**19  # decoded at once
_SAME = 0.01  # share of a kernel in which files of 16 bits may differ
_TINY = 1e-30
_OTHER = "the decoder was trained for ImageNet's VGG-19, and this is another"


class Moments(NamedTuple):
    """Of the normalised encoder's activations: styles, one a row."""

    mean: np.ndarray  # float64 (m, c)
    covariance: np.ndarray  # float64 (m, c, c)


def means(encoder: tf.keras.Model, images: np.ndarray) -> np.ndarray:
    """float32 (n, c): what is sent beside the Gram matrices of uint8 images (n, height, width, 3)."""
    tap = vgg.taps(encoder, [LAYER])
    step = max(1, _PIXELS // (images.shape[1] * images.shape[2]))
    parts = [images[start : start + step] for start in range(0, len(images), step)]
    return np.concatenate([np.asarray(tap(_as_float(part))).mean((1, 2), np.float64) for part in parts]).astype("f4")


def moments(pair: Pair, encoder: tf.keras.Model, gram: np.ndarray, mean: np.ndarray, places: int) -> Moments:
    """What Gram matrices (m, c, c) and means (m, c) of `encoder`, a `vgg.build`, say in terms of the pair's."""
    divisors = channel_scales(pair.encoder, encoder)
    mean = mean.astype(np.float64) / divisors
    second = gram.astype(np.float64) / places / np.outer(divisors, divisors)
    return Moments(mean, second - mean[:, :, None] * mean[:, None, :])


def transfer(
    pair: Pair, contents: np.ndarray, styles: Moments, pairs: np.ndarray, how: str, strength: float = 1.0
) -> np.ndarray:
    """uint8 images (k, height, width, 3), one for each of `pairs` (k, 2): rows of `contents` and of `styles`.

    `strength` mixes the new activations with the image's own: 0 is the image as the decoder sees it.
    """
    height, width = contents.shape[1:3]
    features = _features(pair.encoder, contents)
    result = np.empty((len(pairs), height, width, 3), np.uint8)
    step = max(1, _PIXELS // (height * width))
    whitened: dict[int, np.ndarray] = {}
    colours: dict[int, np.ndarray] = {}
    for start in range(0, len(pairs), step):
        new = []
        for content, style in pairs[start : start + step].tolist():
            own = features[content].astype(np.float64)
            if how == "adain":
                changed = _normalised(own) * _deviations(styles, style) + styles.mean[style]
            else:
                if content not in whitened:
                    whitened = {content: _whitened(own)}  # pairs of a content come together
                if style not in colours:
                    colours[style] = _root(styles.covariance[style], 0.5)
                changed = whitened[content] @ colours[style] + styles.mean[style]
            new.append(strength * changed + (1 - strength) * own)
        pictures = np.asarray(pair.decoder(tf.constant(np.stack(new), tf.float32)))[:, :height, :width]
        result[start : start + step] = np.rint(pictures * 255).astype(np.uint8)
    return result


def channel_scales(normalised: tf.keras.Model, encoder: tf.keras.Model) -> np.ndarray:
    """(c,): by how much each channel of `encoder`'s LAYER is larger.

    Followed from layer to layer: with inputs that are s times as large, a kernel's output is as many times as large as
    its own entries, times s, are larger than the normalised kernel's. Raises ValueError if the rest is not the same.
    """
    scales = np.ones(3)
    for name in NAMES[: NAMES.index(LAYER)]:
        if not name.startswith("conv"):
            continue
        small, large = (np.asarray(network.get_layer(name).kernel, np.float64) for network in (normalised, encoder))
        if small.shape != large.shape:
            raise ValueError(_OTHER)
        large = large * scales[:, None]
        scales = (small * large).sum((0, 1, 2)) / np.maximum((small * small).sum((0, 1, 2)), _TINY)
        if not np.linalg.norm(large - small * scales) < _SAME * np.linalg.norm(large):
            raise ValueError(_OTHER)
    return scales


def _features(encoder: tf.keras.Model, images: np.ndarray) -> np.ndarray:
    """Of images reflected at the right and at the bottom up to a size that the decoder gives back."""
    more = [-side % SCALE for side in images.shape[1:3]]
    padded = np.pad(images, [(0, 0), (0, more[0]), (0, more[1]), (0, 0)], mode="reflect")
    step = max(1, _PIXELS // (padded.shape[1] * padded.shape[2]))
    parts = [padded[start : start + step] for start in range(0, len(padded), step)]
    return np.concatenate([np.asarray(encoder(_as_float(part))) for part in parts])


def _as_float(images: np.ndarray) -> tf.Tensor:
    return tf.constant(images, tf.float32) / 255.0


def _deviations(styles: Moments, style: int) -> np.ndarray:
    return np.sqrt(np.maximum(np.diagonal(styles.covariance[style]), 0))


def _normalised(features: np.ndarray) -> np.ndarray:
    """(height, width, c) with a mean of 0 and a deviation of 1 in every channel."""
    return (features - features.mean((0, 1))) / np.sqrt(features.var((0, 1)) + _SMALLEST)


def _whitened(features: np.ndarray) -> np.ndarray:
    """(height, width, c) without mean and covariance, as far as its places can tell."""
    centred = features - features.mean((0, 1))
    flat = centred.reshape(-1, features.shape[-1])
    return centred @ _root(flat.T @ flat / len(flat), -0.5)


def _root(covariance: np.ndarray, power: float) -> np.ndarray:
    """A power of a symmetric matrix, of the directions that have any extent."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _SMALLEST * max(values[-1], _SMALLEST)
    return (vectors[:, kept] * values[kept] ** power) @ vectors[:, kept].T
