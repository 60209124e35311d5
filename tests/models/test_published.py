"""The published networks give what the original implementations give: activations stored from PyTorch.

The numbers were written down once from torchvision's own ResNet-18, DenseNet-121 and VGG-19, and from AdaIN's pair and
FID's Inception written out in PyTorch, for the drawn picture below and the same arrays. VGG-19's input is Caffe's.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from models import adain_published, inception, vgg
from models.classifiers import base_of, build
from models.weights import load

WEIGHTS = Path(os.environ.get("TFFAPPS_REAL_WEIGHTS", ""))
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif("TFFAPPS_REAL_WEIGHTS" not in os.environ, reason="TFFAPPS_REAL_WEIGHTS names no folder"),
]
TOLERANCE = 1e-4  # of the largest activation
# the largest activation, and some by their place among all: large, middling and small ones
STORED: dict[str, tuple[float, dict[int, float]]] = {
    "resnet18": (
        23.58283,
        {2182: 23.58283, 2527: 10.34154, 2413: 5.341038, 4251: 3.132715, 1332: 1.695459, 104: 0.6070338},
    ),
    "densenet121": (
        55.03104,
        {4963: 55.03104, 4667: 8.738104, 6796: 3.780003, 3902: 1.554458, 7293: 0.1348737, 294: 0.002549442},
    ),
    "vgg19_relu4_1": (
        14788.75,
        {72738: 14788.75, 5078: 4169.152, 52670: 2680.568, 54530: 1851.836, 66895: 1081.297, 45130: 417.5552},
    ),
    "vgg19_relu5_4": (
        90.77715,
        {1526: 90.77715, 3046: 53.80919, 10571: 35.27164, 486: 21.7608, 258: 11.10131, 7797: 3.343607},
    ),
    "adain_encoder": (
        17.66928,
        {41898: 17.66928, 17819: 9.486588, 9492: 6.160738, 72955: 3.871405, 17148: 2.006557, 20300: 0.6944278},
    ),
    "adain_decoder": (
        1.03643,
        {14913: 1.03643, 7506: 0.9577621, 11178: 0.7718391, 4339: 0.5912974, 7195: 0.3938331, 4506: 0.1240568},
    ),
    "inception": (  # from every part of the last block, most from the one that takes a maximum
        4.289917,
        {
            295: 4.289917,
            649: 3.708112,
            860: 2.581479,
            1289: 1.455728,
            1672: 1.72946,
            1860: 2.047814,
            1865: 0.3815222,
            1940: 0.0976368,
        },
    ),
}


@pytest.fixture(scope="module")
def picture() -> tf.Tensor:
    """96 × 96 pixels of 8 bits that any implementation can draw."""
    y, x = np.mgrid[:96, :96] / 96
    colours = np.stack([np.sin(9 * x + 2 * y), np.cos(5 * y * x + 1), np.sin(20 * x * x - 7 * y)], axis=-1)
    return tf.constant(np.rint((0.5 + 0.4 * colours) * 255)[None] / 255, tf.float32)


def agrees(name: str, activations: tf.Tensor) -> None:
    largest, values = STORED[name]
    found = np.asarray(activations).ravel()
    np.testing.assert_allclose(np.abs(found).max(), largest, rtol=TOLERANCE)
    np.testing.assert_allclose(found[list(values)], list(values.values()), rtol=0, atol=TOLERANCE * largest)


@pytest.mark.parametrize(
    ("name", "file"),
    [("resnet18", "resnet18_imagenet.npz"), ("densenet121", "densenet121_imagenet_notop.h5")],
)
def test_classifiers(name, file, picture):
    model = build(name, input_shape=(96, 96, 3), classes=3)
    assert load(model, name, str(WEIGHTS / file), seed=0).part == "backbone"
    agrees(name, base_of(model)(picture))


def test_vgg19(picture):
    model = vgg.build("relu5_4")
    vgg.load(model, str(WEIGHTS / "vgg19_imagenet_notop.h5"))
    fourth, fifth = vgg.taps(model, ["relu4_1", "relu5_4"])(picture)
    agrees("vgg19_relu4_1", fourth)
    agrees("vgg19_relu5_4", fifth)


def test_adain(picture):
    pair = adain_published.load(WEIGHTS / "adain_encoder_relu4_1.npz", WEIGHTS / "adain_decoder.npz")
    activations = pair.encoder(picture)
    agrees("adain_encoder", activations)
    unclipped = tf.keras.Model(pair.decoder.input, pair.decoder.get_layer("conv1_1").output)
    agrees("adain_decoder", unclipped(activations))
    assert np.max(pair.decoder(activations)) == 1.0


def test_inception_of_fid(picture):
    model, label, sha256 = inception.build(str(WEIGHTS / "inception_fid_2015.npz"))
    assert label == "fid2015:inception_fid_2015.npz" and sha256 is not None and len(sha256) == 64
    agrees("inception", model(picture))
