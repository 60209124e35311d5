"""InceptionV3 as a ruler: the 2048 pooled features between which FID and KID are measured.

Published values are of the network of 2015 (`models.inception_fid`): a file of its weights is told by its names.
Keras's InceptionV3 with ImageNet weights is another network, and gives other values. With random weights an untrained
BatchNorm passes everything on unchanged, and after fifty layers all images look the same (features vary by 1e-4).
Random weights are therefore calibrated: the BatchNorm statistics are set to those of a fixed batch of drawn noise, from
white to cloudy. Such features do tell sets of images apart, but their values compare with no one else's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from models import inception_fid
from models.weight_sources import imagenet_file
from models.weights import WeightsError, check_shapes, fill

layers = tf.keras.layers

SMALLEST = 75  # pixels on a side, below which nothing is left to pool
CALIBRATION_IMAGES = 64


def build(weights: str = "random", size: int = 299, seed: int = 0) -> tuple[tf.keras.Model, str, str | None]:
    """The network, what tables call its weights, and the SHA-256 of their file (None for random ones).

    It takes float32 RGB images in [0,1] of any size, resized bilinearly to `size` inside, and gives (n, 2048).
    `weights` is "random" (decided by `seed` alone), "imagenet", a file of InceptionV3's weights, with or without its
    top, or a file of FID's own network: tables then call it "fid2015:NAME", and a `size` of 299 gives published values.
    Raises `WeightsError` for files that do not fit.
    """
    if size < SMALLEST:
        raise ValueError(f"size {size}: InceptionV3 needs images of at least {SMALLEST}x{SMALLEST} pixels")
    if weights not in ("random", "imagenet") and inception_fid.holds(Path(weights)):
        published, sha256 = inception_fid.build(Path(weights), size)
        return published, f"fid2015:{Path(weights).name}", sha256
    images = layers.Input((None, None, 3), name="images")
    resized = layers.Resizing(size, size, interpolation="bilinear", name="resize")(images)
    scaled = layers.Rescaling(2.0, -1.0, name="rescale")(resized)
    network = tf.keras.applications.InceptionV3(include_top=False, weights=None, input_tensor=scaled)
    features = layers.GlobalAveragePooling2D(name="features")(network.output)
    model = tf.keras.Model(images, features, name="inceptionv3")
    used = fill(model, weights, seed, lambda: imagenet_file("inceptionv3"), _fitting)
    if used.kind == "random":
        _calibrate(model, size)
    model.trainable = False
    return model, used.label, used.sha256


def _fitting(path: Path, arrays: list[np.ndarray], model: tf.keras.Model) -> tuple[str, int]:
    """The whole network; a file may end with the top's kernel and bias, which are left out."""
    count = len(model.weights)
    check_shapes(path, arrays, model.weights, model.name)
    if len(arrays) not in (count, count + 2):
        raise WeightsError(f"{path}: not the weights of {model.name}; {len(arrays)} arrays where it has {count}")
    return "model" if len(arrays) == count else "backbone", count


def _calibrate(model: tf.keras.Model, size: int) -> None:
    """Sets every BatchNorm's statistics to those of the drawn batch, in one pass."""
    norms = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0  # what was there is forgotten
    model(_drawn(size), training=True)
    for norm, momentum in zip(norms, usual):
        norm.momentum = momentum


def _drawn(side: int) -> np.ndarray:
    """Coloured noise of many mean colours and contrasts, its amplitude falling as frequency^-e, e from 0 to 2.

    Natural images have e ≈ 1. The others are there because statistics of smooth images alone let the features
    of a noisy one explode.
    """
    generator = np.random.default_rng(0)
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side))
    frequency[0, 0] = np.inf  # the mean is set below
    images = np.empty((CALIBRATION_IMAGES, side, side, 3), np.float32)
    for image, exponent in zip(images, np.linspace(0, 2, CALIBRATION_IMAGES)):
        spectrum = np.fft.rfft2(generator.standard_normal((4, side, side))) * frequency**-exponent
        fields = np.fft.irfft2(spectrum, s=(side, side))
        fields /= fields.std(axis=(1, 2), keepdims=True)
        grey, colours = fields[0], fields[1:]  # channels of natural images mostly go together
        mean, contrast = generator.uniform(0.1, 0.9, (3, 1, 1)), generator.uniform(0.05, 0.25)
        image[:] = np.clip(mean + contrast * (0.85 * grey + 0.5 * colours), 0, 1).transpose(1, 2, 0)
    return images
