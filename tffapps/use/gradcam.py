"""Grad-CAM (Selvaraju et al. 2017): where in an image the evidence for a class is, by gradients.

A channel of the last feature map counts by the mean gradient of the class's score with respect to it; the map is the
weighted sum of channels, what speaks against the class left out. The score is the logit, not the probability: near 1
a probability hardly has a gradient. The map is as coarse as the feature map it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from models.flattened import flattened
from models.graph import output_of, tensors


def heat_maps(
    model: tf.keras.Model, images: np.ndarray, class_indices: Sequence[int], *, layer: str = "", batch: int = 16
) -> np.ndarray:
    """How much each place of each image speaks for a class: float32 (n, height, width), not yet scaled.

    Args:
      model: a functional classifier, image → probabilities; models inside it are looked into.
      images: float32 (n, height, width, channels), as the model takes them.
      class_indices: the class of each image to be explained.
      layer: whose output is looked at; "": the last feature map that has more than one place.
      batch: images at a time.
    """
    flat = flattened(model)
    features = _named(flat, layer) if layer else _last_map(flat)
    source, scores_of = _scores(flat)
    seen = tf.keras.Model(flat.inputs, [features, source])

    @tf.function(reduce_retracing=True)
    def heat(images: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(images)
            maps, values = seen(images, training=False)
            chosen = tf.gather(scores_of(values), indices, batch_dims=1)
        weights = tf.reduce_mean(tape.gradient(chosen, maps), axis=[1, 2], keepdims=True)
        found = tf.nn.relu(tf.reduce_sum(weights * maps, axis=-1, keepdims=True))
        return tf.image.resize(found, tf.shape(images)[1:3], method="bilinear")[..., 0]

    indices = np.asarray(class_indices, np.int32)
    parts = [
        heat(
            tf.constant(images[start : start + batch], tf.float32), tf.constant(indices[start : start + batch])
        ).numpy()
        for start in range(0, len(images), batch)
    ]
    return np.concatenate(parts) if parts else np.zeros(images.shape[:3], np.float32)


def _last_map(model: tf.keras.Model) -> Any:
    maps = [tensor for tensor in tensors(model) if _is_map(tensor)]
    if not maps:
        raise ValueError(f"model {model.name}: it has no feature map that a heat map could be made of")
    return maps[-1]


def _named(model: tf.keras.Model, layer: str) -> Any:
    tensor = output_of(model, layer)
    if not _is_map(tensor):
        raise ValueError(f"layer {layer}: its output {tuple(tensor.shape)} is no feature map")
    return tensor


def _is_map(tensor: Any) -> bool:
    shape = tensor.shape
    return shape.rank == 4 and (shape[1] is None or shape[2] is None or shape[1] * shape[2] > 1)


def _scores(model: tf.keras.Model) -> tuple[Any, Callable[[tf.Tensor], tf.Tensor]]:
    """A tensor of the model, and what makes the classes' scores of it."""
    node, kinds = model.output.node, tf.keras.layers
    softmax = isinstance(node.layer, kinds.Softmax) or (
        isinstance(node.layer, (kinds.Dense, kinds.Activation))
        and node.layer.activation is tf.keras.activations.softmax
    )
    if not softmax:
        return model.output, lambda probabilities: tf.math.log(probabilities + 1e-12)
    if isinstance(node.layer, kinds.Dense):  # its bias has no part in a gradient
        return node.keras_inputs[0], lambda features: tf.linalg.matmul(features, node.layer.kernel)
    return node.keras_inputs[0], tf.identity
