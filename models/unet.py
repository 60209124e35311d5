"""U-Net (Ronneberger, Fischer and Brox 2015) for two classes of pixels, as FedTransfer segments grains.

    images in [0,1] → pad → 2 convolutions → pool → … → 2 convolutions → up ┐
                             └───────────── beside ────────────────────────→ 2 convolutions → … → crop → softmax

Class 0 is grain, class 1 boundary. The output is a softmax over both, like that of the classifiers here, so that
probabilities of a class are `outputs[..., 1]` and predictions an argmax.

There is no BatchNorm, as in the paper. Clients that differ in brightness and contrast have different statistics, their
mean fits neither, and batches of 8 or fewer estimate them badly; federated averaging without them has one thing less to
go wrong. He's initial weights keep activations in scale instead.

Deviations: convolutions fill borders with zeros and keep the size, where the paper's shrink it; images whose sides are
no multiple of 2^depth are mirrored up to one and the outputs cut back; no dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from models.initialise import seed_weights
from models.padding import cropped, padded

layers = tf.keras.layers

WIDTH, DEPTH = 64, 4
CLASSES = 2
GRAIN, BOUNDARY = 0, 1


def build(
    *, input_shape: Sequence[int], width: int = WIDTH, depth: int = DEPTH, seed: int = 0, classes: int = CLASSES
) -> tf.keras.Model:
    """Float32 images (n, height, width, channels) in [0,1] to probabilities (n, height, width, classes).

    `width` is the number of filters at full size: 64 is the paper's, fewer suit small machines. Each of `depth`
    poolings doubles it. Same arguments, same initial weights in every process.
    """
    shape = tuple(input_shape)
    if len(shape) != 3 or shape[2] not in (1, 3) or min(shape[:2]) < 1:
        raise ValueError(f"input_shape {shape}: expected (height, width, channels) with 1 or 3 channels")
    for name, value, least in (("width", width, 1), ("depth", depth, 1), ("classes", classes, 2)):
        if value < least:
            raise ValueError(f"{name} {value}: must be at least {least}")

    images = layers.Input(shape, name="images")
    x = padded(layers.Rescaling(2.0, -1.0, name="rescale")(images), 2**depth)
    beside = []
    for level in range(depth):
        x = _block(x, width * 2**level, f"down{level}")
        beside.append(x)
        x = layers.MaxPooling2D(2, name=f"down{level}_pool")(x)
    x = _block(x, width * 2**depth, "bottom")
    for level in reversed(range(depth)):
        x = layers.Conv2DTranspose(
            width * 2**level, 2, strides=2, name=f"up{level}_up", kernel_initializer="he_normal"
        )(x)
        x = layers.Concatenate(name=f"up{level}_join")([beside[level], x])
        x = _block(x, width * 2**level, f"up{level}")
    # Cut before the softmax: where that comes last, Keras computes cross-entropy from its inputs, which is exact.
    logits = cropped(layers.Conv2D(classes, 1, name="classifier")(x), *shape[:2])
    model = tf.keras.Model(images, layers.Activation("softmax", name="probabilities")(logits), name="unet")
    seed_weights(model, seed)
    return model


def segmentation_loss(boundary_weight: float = 1.0) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """(labels (n, height, width), probabilities (n, height, width, classes)) → cross-entropy (n,), mean over pixels.

    With a weight the mean is a weighted one, in which a boundary pixel counts as that many others: boundaries are thin.
    The weights of an image add up to one, so that images with many boundaries count no more than others.
    """
    if not boundary_weight > 0:
        raise ValueError(f"boundary_weight is {boundary_weight}; it must be above 0")

    def loss(labels: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
        entropy = tf.keras.losses.sparse_categorical_crossentropy(labels, probabilities)  # (n, height, width)
        if boundary_weight == 1:
            return tf.reduce_mean(entropy, axis=[1, 2])
        weights = tf.where(tf.equal(tf.cast(labels, tf.int32), BOUNDARY), boundary_weight, 1.0)
        return tf.reduce_sum(weights * entropy, axis=[1, 2]) / tf.reduce_sum(weights, axis=[1, 2])

    return loss


def _block(x: Any, filters: int, name: str) -> Any:
    for number in (1, 2):
        x = layers.Conv2D(
            filters, 3, padding="same", activation="relu", name=f"{name}_conv{number}", kernel_initializer="he_normal"
        )(x)
    return x
