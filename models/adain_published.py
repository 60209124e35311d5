"""AdaIN's encoder and decoder as their authors trained them (Huang and Belongie 2017; CCST uses the same pair).

The encoder is a VGG-19 whose activations were scaled to a mean of 1. It begins with a 1 × 1 convolution of colours, for
RGB in [0,1], and every border is reflected, where `models.vgg` has zeros. The decoder was trained for it and is not to
be trained again; `models.adain.decoder` is the one that a federation trains.

    images → colours → conv1_1 → relu1_1 → … → relu4_1 → (moments of another style) → conv4_1 … conv1_1 → clip → images

Files name arrays by their place in the authors' sequence of layers: 0.weight, 2.weight, …, 29.weight (encoder) and
1.weight, …, 28.weight (decoder); .npz with kernels height × width × in × out, or .pth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from models.adain import LAYER, Reflect
from models.named_arrays import check_finite, take
from models.stored import WeightsError
from models.vgg import CONVOLUTIONS, NAMES, WIDTH, WIDTHS
from models.weight_files import opened_state

layers = tf.keras.layers

FILES = ("adain_encoder_relu4_1", "adain_decoder")
_BLOCKS = 3  # whole ones before LAYER
_ENCODER = (0, 2, 5, 9, 12, 16, 19, 22, 25, 29)  # places of the convolutions
_DECODER = (1, 5, 8, 11, 14, 18, 21, 25, 28)
_LONGER = tuple(range(32, 53))  # places that a file of the whole VGG-19 goes on to


class Pair(NamedTuple):
    encoder: tf.keras.Model  # images float32 (n, height, width, 3) in [0,1] to the activations of relu4_1
    decoder: tf.keras.Model  # activations to images in [0,1]; height and width are multiples of 8
    sha256: str  # of both files


def load(encoder_file: Path, decoder_file: Path) -> Pair:
    """Both networks with the weights of these files. Raises `WeightsError` for others."""
    encoder, decoder = build_encoder(), build_decoder()
    _fill(encoder, encoder_file, _ENCODER, _LONGER)
    _fill(decoder, decoder_file, _DECODER)
    both = hashlib.sha256(encoder_file.read_bytes())
    both.update(decoder_file.read_bytes())
    return Pair(encoder, decoder, both.hexdigest())


def load_folder(folder: Path) -> Pair:
    """The pair whose files are in a folder, called adain_encoder_relu4_1 and adain_decoder, .npz or .pth."""
    files = []
    for name in FILES:
        here = [folder / f"{name}{suffix}" for suffix in (".npz", ".pth")]
        file = next((path for path in here if path.exists()), None)
        if file is None:
            raise WeightsError(f"{here[0]}: no such file; place AdaIN's published weights there, as .npz or .pth")
        files.append(file)
    return load(*files)


def build_encoder() -> tf.keras.Model:
    """Its layers are called as `models.vgg`'s, so that `vgg.taps` and `vgg.frozen` work on it."""
    images = layers.Input((None, None, 3), name="images")
    x = layers.Conv2D(3, 1, name="colours")(images)
    for name in NAMES[: NAMES.index(LAYER) + 1]:
        if name.startswith("conv"):
            x = _conv(x, WIDTH * WIDTHS[int(name[4]) - 1], name)
        elif name.startswith("relu"):
            x = layers.ReLU(name=name)(x)
        else:  # a last row or column alone counts as a pair
            x = layers.MaxPooling2D(2, padding="same", name=name)(x)
    return tf.keras.Model(images, x, name="adain_encoder")


def build_decoder() -> tf.keras.Model:
    activations = layers.Input((None, None, WIDTH * WIDTHS[_BLOCKS]), name="activations")
    x = layers.ReLU(name="relu4_1")(_conv(activations, WIDTH * WIDTHS[_BLOCKS - 1], "conv4_1"))
    for block in range(_BLOCKS, 0, -1):
        x = layers.UpSampling2D(2, interpolation="nearest", name=f"up{block}")(x)
        for number in range(CONVOLUTIONS[block - 1], 0, -1):
            last = number == 1
            filters = WIDTH * WIDTHS[block - 2] if last and block > 1 else WIDTH * WIDTHS[block - 1]
            if last and block == 1:
                x = _conv(x, 3, "conv1_1")
            else:
                x = layers.ReLU(name=f"relu{block}_{number}")(_conv(x, filters, f"conv{block}_{number}"))
    return tf.keras.Model(activations, Clip(name="clip")(x), name="adain_published_decoder")


class Clip(tf.keras.layers.Layer):
    """To [0,1], as the authors save their pictures."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(x, 0.0, 1.0)


def _conv(x: Any, filters: int, name: str) -> Any:
    return layers.Conv2D(filters, 3, name=name)(Reflect(name=f"{name}_reflect")(x))


def _fill(model: tf.keras.Model, path: Path, places: Sequence[int], longer: Sequence[int] = ()) -> None:
    convolutions = [layer for layer in model.layers if layer.weights]
    wanted = [
        (f"{place}.{part}", tuple(variable.shape))
        for place, layer in zip(places, convolutions)
        for part, variable in zip(("weight", "bias"), layer.weights)
    ]
    optional = [f"{place}.{part}" for place in longer for part in ("weight", "bias")]
    with opened_state(path) as state:
        arrays = take(path, model.name, state.arrays, wanted, torch_order=state.torch_order, optional=optional)
    check_finite(path, arrays)
    model.set_weights(arrays)
    model.trainable = False
