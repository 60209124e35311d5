"""Image classifiers: one flat Keras graph of pre-processing, backbone and head.

    image in [0,1] → (1 channel → 3) → rescale → backbone → "features" → head → "embedding" → "classifier"

The quoted names are layers of every model, whatever the backbone. The graph is flat (no model inside a
model), so `model.weights` lists the backbone's variables first, then the head's, layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from models.graph import output_of
from models.initialise import seed_weights
from models.names import APPLICATIONS, CONVOLUTIONAL, FLOAT32, HEADS, NAMES, check_head, check_name
from models.resnet import resnet18_features
from models.tiny import tiny_features

__all__ = ["HEADS", "NAMES", "base_of", "build", "check_name", "head_on"]

layers = tf.keras.layers

HEAD_KERNELS = (1, 3)  # of a convolutional head
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STDDEV = (0.229, 0.224, 0.225)


def build(
    name: str,
    *,
    input_shape: Sequence[int],
    classes: int,
    head: str | None = None,
    trainable_base: bool = True,
    seed: int = 0,
    dropout: float = 0.0,
) -> tf.keras.Model:
    """A classifier of float32 images in [0,1]; same arguments, same initial weights in every process.

    `input_shape` is (height, width, channels) with 1 or 3 channels; `head` is one of HEADS (default "gap");
    `dropout` acts on the embedding. With `trainable_base=False` the backbone is frozen, its BatchNorm
    statistics included.
    """
    check_name(name)
    head = head or "gap"
    check_head(head)
    _check_input(name, tuple(input_shape))
    if classes < 2:
        raise ValueError(f"classes {classes}: a classifier needs at least 2 (two classes are two outputs)")

    images = layers.Input(tuple(input_shape), name="images")
    features = layers.Activation("linear", name="features")(_backbone(name, _preprocess(name, images)))
    model = tf.keras.Model(images, head_on(features, head, classes, dropout, seed), name=name)
    seed_weights(model, seed)
    if not trainable_base:
        base_of(model).trainable = False
    return model


def head_on(features: Any, head: str, classes: int, dropout: float = 0.0, seed: int = 0) -> Any:
    """Feature map → probabilities, by a head of HEADS."""
    embedding = _embedding(head, features)
    if dropout:
        embedding = layers.Dropout(dropout, seed=seed, name="dropout", dtype=FLOAT32)(embedding)
    return layers.Dense(classes, activation="softmax", name="classifier", dtype=FLOAT32)(embedding)


def base_of(model: tf.keras.Model) -> tf.keras.Model:
    """Image → feature map, sharing the model's layers: freezing it freezes them in the model."""
    return tf.keras.Model(model.input, output_of(model, "features"), name=f"{model.name}_base")


def _check_input(name: str, shape: tuple[int, ...]) -> None:
    smallest = 8 if name == "tiny" else 32  # what the strides of the network divide by
    if len(shape) != 3 or shape[2] not in (1, 3):
        raise ValueError(f"input_shape {shape}: expected (height, width, channels) with 1 or 3 channels")
    if min(shape[:2]) < smallest:
        raise ValueError(f"input_shape {shape}: {name} needs images of at least {smallest}x{smallest} pixels")


def _preprocess(name: str, images: Any) -> Any:
    if name == "tiny":
        return layers.Rescaling(2.0, -1.0, name="rescale")(images)
    if images.shape[-1] == 1:  # three equal channels, so that weights learnt on colour images fit
        images = layers.Concatenate(name="to_three_channels")([images] * 3)
    if name == "mobilenetv2":
        return layers.Rescaling(2.0, -1.0, name="rescale")(images)
    scale = [1 / stddev for stddev in IMAGENET_STDDEV]
    offset = [-mean / stddev for mean, stddev in zip(IMAGENET_MEAN, IMAGENET_STDDEV)]
    return layers.Rescaling(scale, offset, name="rescale")(images)


def _backbone(name: str, x: Any) -> Any:
    if name == "tiny":
        return tiny_features(x)
    if name == "resnet18":
        return resnet18_features(x)
    applications = tf.keras.applications
    constructors = (
        applications.MobileNetV2,
        applications.DenseNet121,
        applications.DenseNet169,
        applications.DenseNet201,
    )
    constructor = dict(zip(APPLICATIONS, constructors))[name]
    return constructor(include_top=False, weights=None, input_tensor=x).output


def _embedding(head: str, features: Any) -> Any:
    if head in CONVOLUTIONAL:
        features = _conv_head(features, *CONVOLUTIONAL[head])
    if head == "gap" or head in CONVOLUTIONAL:
        return layers.GlobalAveragePooling2D(name="embedding", dtype=FLOAT32)(features)
    flat = layers.Flatten(name="flatten")(features)
    return layers.Dense(256, activation="relu", name="embedding", dtype=FLOAT32)(flat)


def _conv_head(x: Any, filters: int, stride: int) -> Any:
    """A small network of its own for features of a middle layer, which a mean over places would blur.

    First fewer channels, then what lies side by side: on DenseNet's 1,024 channels that is 0.28 M parameters and not
    the 1.2 M of the second step alone.
    """
    for number, size in enumerate(HEAD_KERNELS, start=1):
        x = layers.Conv2D(
            filters,
            size,
            strides=1 if number == 1 else stride,
            padding="same",
            use_bias=False,
            kernel_initializer="he_normal",
            name=f"head_conv{number}",
        )(x)
        # 0.9: a head is trained in few steps, too few for Keras's 0.99 to forget the initial statistics.
        x = layers.BatchNormalization(momentum=0.9, name=f"head_norm{number}")(x)
        x = layers.ReLU(name=f"head_relu{number}")(x)
    return x
