"""PatchGAN discriminators (Isola et al. 2017, Wang et al. 2018): is this image a photograph made for this label?

    labels and images side by side → 4 × 4 convolutions, halved three times → a number for every patch of 70 × 70 pixels

`unet` has one, which looks at full size; `hd` has two, the second looking at half the size. Each gives its inner
activations too, for the feature-matching loss. Instance norm as in the generators; outputs are logits, not squashed.
"""

from __future__ import annotations

import tensorflow as tf

from models.initialise import seed_weights
from models.pix2pix import SLOPE, Architecture, conv

layers = tf.keras.layers

SCALES = {"unet": 1, "hd": 2}
LEVELS = (1, 2, 4, 8)  # filters, in widths; the last level does not halve
_APART = 2**40  # added to the seed: other numbers than the generator's


def build(architecture: Architecture, seed: int = 0) -> tf.keras.Model:
    """The judge of such a generator: [labels, images] → for each scale a list of activations, the logits last."""
    labels = layers.Input((*architecture.size, 1), name="labels")
    images = layers.Input((*architecture.size, architecture.channels), name="images")
    x = layers.Concatenate(name="pairs")([labels, images])
    scales = []
    for scale in range(SCALES[architecture.name]):
        if scale:
            x = layers.AveragePooling2D(3, 2, "same", name=f"scale{scale}")(x)
        scales.append(_patches(x, architecture.width, f"scale{scale}_"))
    model = tf.keras.Model([labels, images], scales, name="pix2pix_discriminator")
    seed_weights(model, _APART + seed)
    return model


def _patches(x: tf.Tensor, width: int, prefix: str) -> list[tf.Tensor]:
    activations = []
    for level, multiple in enumerate(LEVELS):
        stride = 1 if level == len(LEVELS) - 1 else 2
        x = conv(x, multiple * width, f"{prefix}conv{level}", stride=stride, norm=level > 0)
        x = layers.LeakyReLU(SLOPE, name=f"{prefix}relu{level}")(x)
        activations.append(x)
    return [*activations, conv(x, 1, f"{prefix}logits", stride=1, norm=False)]
