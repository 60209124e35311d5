"""The convolutional part of VGG-19 (Simonyan and Zisserman 2015, Table 1, column E), for style and its transfer.

    images RGB in [0,1] → "preprocess" → conv1_1 → relu1_1 → conv1_2 → … → pool1 → conv2_1 → … → relu5_4

Layers are called as in the literature on style, one for each step, so that any activation can be had by name
(`taps`). `width` is the number of filters of the first block: 64 is VGG-19, fewer suit small machines.

What "preprocess" does depends on the weights, so `load` sets it; load before anything traces the network.
  - ImageNet's weights and Keras's files: as those were trained, x · 255, blue first, minus the mean colour;
  - files with torchvision's names: (x − mean) / deviation, red first, as torchvision's were trained;
  - random weights (He normal): x · 2 − 1, with which activations of every layer stay near unit scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from models.classifiers import IMAGENET_MEAN, IMAGENET_STDDEV
from models.initialise import seed_weights
from models.weight_sources import imagenet_file
from models.weights import WeightsError, WeightsUsed, check_shapes, fill

layers = tf.keras.layers

CONVOLUTIONS = (2, 2, 4, 4, 4)  # in each block
WIDTHS = (1, 2, 4, 8, 8)  # filters of each block, in multiples of the first's
WIDTH = 64
MEAN_BGR = (103.939, 116.779, 123.68)  # of ImageNet, as in Caffe's preprocessing


def _names() -> tuple[str, ...]:
    names = []
    for block, count in enumerate(CONVOLUTIONS, start=1):
        names += [f"{kind}{block}_{number}" for number in range(1, count + 1) for kind in ("conv", "relu")]
        names.append(f"pool{block}")
    return tuple(names[:-1])  # nothing follows the last pool


NAMES = _names()


def build(
    upto: str = "relu4_1",
    width: int = WIDTH,
    input_shape: Sequence[int | None] = (None, None, 3),
    seed: int = 0,
) -> tf.keras.Model:
    """Images float32 (n, height, width, 3) in [0,1] to the activations of the layer `upto`; He normal weights."""
    if upto not in NAMES:
        raise ValueError(f"layer {upto}: unknown; choose one of {', '.join(NAMES)}")
    if width < 1:
        raise ValueError(f"width {width}: the first block needs at least 1 filter; VGG-19 has {WIDTH}")
    images = x = layers.Input(tuple(input_shape), name="images")
    x = Preprocess(name="preprocess")(x)
    for name in NAMES[: NAMES.index(upto) + 1]:
        x = _layer(name, width)(x)
    model = tf.keras.Model(images, x, name="vgg19")
    seed_weights(model, seed)
    return model


def load(model: tf.keras.Model, weights: str, seed: int = 0) -> WeightsUsed:
    """Gives a model of `build` its weights: "random", "imagenet" or a file's; `sha256` is the file's.

    Files are Keras's .h5, our .npz, and .pth, .safetensors or .npz with torchvision's names. Of a file the layers that
    the model has are used. After a WeightsError the model is as it was.
    """
    used = fill(model, weights, seed, lambda: _imagenet_file(model), _fitting)
    preprocess = model.get_layer("preprocess")
    preprocess.torch = used.names == "torchvision"
    preprocess.caffe = used.kind != "random" and not preprocess.torch
    return used


def taps(model: tf.keras.Model, names: Sequence[str]) -> tf.keras.Model:
    """Images → the activations of these layers, a list; shares the model's layers."""
    return tf.keras.Model(model.input, [model.get_layer(name).output for name in names], name=f"{model.name}_taps")


def frozen(model: tf.keras.Model) -> tf.keras.Model:
    """A copy whose present weights are constants: it has none to be trained, sent, averaged or noised."""

    def copy(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
        if isinstance(layer, layers.Conv2D):
            kernel, bias = layer.get_weights()
            return FixedConvolution(kernel, bias, padding=layer.padding, name=layer.name)
        return type(layer).from_config(layer.get_config())

    return tf.keras.models.clone_model(model, clone_function=copy)


class Preprocess(tf.keras.layers.Layer):
    def __init__(self, caffe: bool = False, torch: bool = False, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.caffe, self.torch = caffe, torch

    def call(self, images: tf.Tensor) -> tf.Tensor:
        if self.torch:
            return (images - IMAGENET_MEAN) / IMAGENET_STDDEV
        return images[..., ::-1] * 255.0 - MEAN_BGR if self.caffe else images * 2.0 - 1.0

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "caffe": self.caffe, "torch": self.torch}


class FixedConvolution(tf.keras.layers.Layer):
    """What a Conv2D without strides does, with constants for weights."""

    def __init__(self, kernel: np.ndarray, bias: np.ndarray, padding: str = "same", **arguments: Any) -> None:
        super().__init__(**arguments)
        self._kernel, self._bias, self._padding = tf.constant(kernel), tf.constant(bias), padding.upper()

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.bias_add(tf.nn.conv2d(x, self._kernel, strides=1, padding=self._padding), self._bias)


def _layer(name: str, width: int) -> tf.keras.layers.Layer:
    if name.startswith("pool"):
        return layers.MaxPooling2D(2, name=name)
    if name.startswith("relu"):
        return layers.ReLU(name=name)
    filters = width * WIDTHS[int(name[4]) - 1]  # conv3_2 is in the third block
    return layers.Conv2D(filters, 3, padding="same", kernel_initializer="he_normal", name=name)


def _imagenet_file(model: tf.keras.Model) -> Path:
    width = model.get_layer("conv1_1").filters
    if width != WIDTH:
        raise WeightsError(
            f"imagenet: those weights are for width {WIDTH}, this network has {width};"
            f" choose width {WIDTH}, random weights or a file of that width"
        )
    return imagenet_file("vgg19")


def _fitting(path: Path, arrays: list[np.ndarray], model: tf.keras.Model) -> tuple[str, int]:
    count = len(model.weights)
    if len(arrays) < count:
        raise WeightsError(f"{path}: not the weights of {model.name}; {len(arrays)} arrays where it has {count}")
    check_shapes(path, arrays, model.weights, model.name)
    return "backbone", count
