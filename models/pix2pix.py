"""Generators that paint an image for a label: pix2pix (Isola et al. 2017) and pix2pixHD (Wang et al. 2018).

    unet   U-Net with skip connections: 5 times halved, dropout in the two deepest layers of the way up
    hd     pix2pixHD's global generator: 4 times halved, 9 residual blocks

Both take labels (n, height, width, 1), −1 for class 0 and 1 for class 1, and give images (n, height, width, channels)
in [−1, 1]. `models.pix2pix_discriminator` judges them, `models.pix2pix_losses` has the losses.

Instance norm, with a scale and a shift for each channel, everywhere but in the first, the deepest and the last layer:
pix2pix's BatchNorm, as it was used with one image at a time. It has no statistics to store, and an image is the same
whatever else is in its batch. Where instance norm follows, convolutions have no bias: it would be subtracted again.

Deviations: pix2pix halves 256 × 256 pixels eight times, to a single one. Five times is enough for grains, needs a third
of the weights, which are sent, and 400 pixels padded to 416 rather than 512. Dropout is pix2pix's only noise and stays
on when it is used; here it acts in training only, so that a file and a label make one image. pix2pixHD mirrors borders,
here they are zeros, and its second, local generator, for images above 1024 pixels, is left out.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from models.initialise import seed_weights
from models.names import GENERATORS
from models.padding import cropped, padded

layers = tf.keras.layers

WIDTH = 64  # filters of the first layer, of both papers
UNET_LEVELS = (1, 2, 4, 8, 8)  # filters on the way down, in widths
HD_LEVELS = (1, 2, 4, 8, 16)  # the first one at full size
HD_BLOCKS = 9
DROPOUT, DROPOUT_LAYERS = 0.5, 2
SLOPE = 0.2  # of leaky ReLUs below 0
EPSILON = 1e-5  # instance norm's


@dataclasses.dataclass(frozen=True)
class Architecture:
    """All there is to know of a generator but its weights."""

    name: str  # one of GENERATORS
    size: tuple[int, int]  # height and width of its labels and images
    width: int = WIDTH
    channels: int = 3  # of its images

    def __post_init__(self) -> None:
        if self.name not in GENERATORS:
            raise ValueError(f"generator {self.name}: unknown; choose one of {', '.join(GENERATORS)}")
        if self.channels not in (1, 3):
            raise ValueError(f"channels {self.channels}: images have 1 or 3")
        if self.width < 1 or min(self.size) < 1:
            raise ValueError(f"width {self.width}, size {self.size}: must be above 0")

    def __str__(self) -> str:
        height, width = self.size
        return f"{self.name} of width {self.width} for {height}x{width} pixels, {self.channels} channels"


def build(architecture: Architecture, seed: int = 0) -> tf.keras.Model:
    """Same arguments, same initial weights in every process: normal with deviation 0.02, as in both papers."""
    labels = layers.Input((*architecture.size, 1), name="labels")
    if architecture.name == "unet":
        x = _unet(padded(labels, 2 ** len(UNET_LEVELS)), architecture)
    else:
        x = _hd(padded(labels, 2 ** (len(HD_LEVELS) - 1)), architecture)
    x = layers.Activation("tanh", name="tanh")(cropped(x, *architecture.size))
    model = tf.keras.Model(labels, x, name=f"pix2pix_{architecture.name}")
    seed_weights(model, seed)
    return model


def architecture_of(generator: tf.keras.Model) -> Architecture:
    """Of a model of `build`."""
    first = "down0" if generator.name == "pix2pix_unet" else "first"
    name = generator.name[len("pix2pix_") :]
    return Architecture(name, generator.input_shape[1:3], generator.get_layer(first).filters, generator.output_shape[3])


def set_dropout(generator: tf.keras.Model, seed: int, number: int) -> None:
    """What dropout draws from now on is a function of these two."""
    for place, layer in enumerate(layer for layer in generator.layers if isinstance(layer, SeededDropout)):
        layer.source.reset_from_key_counter(
            np.random.SeedSequence([seed, number, place]).generate_state(1, np.uint64).view(np.int64)[0], [0, 0]
        )


def _unet(x: Any, architecture: Architecture) -> Any:
    beside, deepest = [], len(UNET_LEVELS) - 1
    for level, multiple in enumerate(UNET_LEVELS):
        if level:
            x = layers.LeakyReLU(SLOPE, name=f"down{level}_relu")(x)
        x = conv(x, multiple * architecture.width, f"down{level}", norm=0 < level < deepest)
        beside.append(x)
    for level in range(deepest, 0, -1):
        x = layers.ReLU(name=f"up{level}_relu")(x)
        x = _up(x, UNET_LEVELS[level - 1] * architecture.width, f"up{level}", 4)
        if level > deepest - DROPOUT_LAYERS:
            x = SeededDropout(DROPOUT, name=f"up{level}_dropout")(x)
        x = layers.Concatenate(name=f"up{level}_join")([beside[level - 1], x])
    x = layers.ReLU(name="up0_relu")(x)
    return _up(x, architecture.channels, "up0", 4, norm=False)


def _hd(x: Any, architecture: Architecture) -> Any:
    x = layers.ReLU()(conv(x, architecture.width, "first", kernel=7, stride=1))
    for level, multiple in enumerate(HD_LEVELS[1:], 1):
        x = layers.ReLU()(conv(x, multiple * architecture.width, f"down{level}", kernel=3))
    for block in range(HD_BLOCKS):
        filters = HD_LEVELS[-1] * architecture.width
        inside = layers.ReLU()(conv(x, filters, f"block{block}_1", kernel=3, stride=1))
        x = layers.Add()([x, conv(inside, filters, f"block{block}_2", kernel=3, stride=1)])
    for level in range(len(HD_LEVELS) - 1, 0, -1):
        x = layers.ReLU()(_up(x, HD_LEVELS[level - 1] * architecture.width, f"up{level}", 3))
    return conv(x, architecture.channels, "last", kernel=7, stride=1, norm=False)


def conv(x: Any, filters: int, name: str, *, kernel: int = 4, stride: int = 2, norm: bool = True) -> Any:
    """A convolution, with instance norm or with a bias."""
    x = layers.Conv2D(filters, kernel, stride, "same", use_bias=not norm, kernel_initializer=_normal(), name=name)(x)
    return InstanceNorm(name=f"{name}_norm")(x) if norm else x


def _up(x: Any, filters: int, name: str, kernel: int, norm: bool = True) -> Any:
    x = layers.Conv2DTranspose(filters, kernel, 2, "same", use_bias=not norm, kernel_initializer=_normal(), name=name)(
        x
    )
    return InstanceNorm(name=f"{name}_norm")(x) if norm else x


def _normal(mean: float = 0.0) -> tf.keras.initializers.Initializer:
    return tf.keras.initializers.RandomNormal(mean, 0.02)


class InstanceNorm(tf.keras.layers.Layer):
    """Every channel of every image has mean 0 and deviation 1 over its places, then a scale and a shift."""

    def build(self, shape: tf.TensorShape) -> None:
        self.gamma_initializer, self.beta_initializer = _normal(1.0), tf.keras.initializers.Zeros()
        self.gamma = self.add_weight("gamma", (int(shape[-1]),), initializer=self.gamma_initializer)
        self.beta = self.add_weight("beta", (int(shape[-1]),), initializer=self.beta_initializer)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes=[1, 2], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, self.beta, self.gamma, EPSILON)


class SeededDropout(tf.keras.layers.Layer):
    """Keras's, but what it draws can be set (`set_dropout`), so that a training can go on where it was stopped."""

    def __init__(self, rate: float, **options: Any) -> None:
        super().__init__(**options)
        self.rate = rate
        self.source = tf.random.Generator.from_seed(0, alg="philox")

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training:
            return x
        kept = self.source.uniform(tf.shape(x)) >= self.rate
        return tf.where(kept, x / (1 - self.rate), 0.0)
