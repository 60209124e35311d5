"""A network that other programs can use: of Keras's own layers alone, from pixels 0 … 255 to probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from models.flattened import written_out
from models.norms import GroupNorm
from models.padding import MirrorTo

layers = tf.keras.layers


def standalone(model: tf.keras.Model, temperature: float = 1.0) -> tf.keras.Model:
    """The same function with the scaling of pixels and the calibration inside. Other layers are shared.

    Args:
      model: a network of this project, images in [0,1] → probabilities.
      temperature: that its probabilities are calibrated with; other than 1 only for one that ends in a dense softmax.
    """
    last = model.output.node.layer
    if temperature != 1 and not (
        isinstance(last, layers.Dense) and last.activation is tf.keras.activations.softmax and last.use_bias
    ):
        raise ValueError(f"model {model.name}: it does not end in a dense softmax, and cannot be calibrated")

    def replaced(layer: tf.keras.layers.Layer, x: Any) -> Any:
        if isinstance(layer, MirrorTo):
            return layer.call(x)  # as operations: no other program knows the layer
        if isinstance(layer, GroupNorm):
            values = [layer.gamma.numpy(), layer.beta.numpy()]
            return _called(layers.GroupNormalization(layer.groups, epsilon=layer.epsilon, name=layer.name), x, values)
        if layer is last and temperature != 1:  # softmax(log p / T) is the softmax of logits divided by T
            values = [value / temperature for value in layer.get_weights()]
            return _called(layers.Dense(layer.units, activation="softmax", name=layer.name), x, values)
        return None

    pixels = layers.Input(model.input_shape[1:], name="pixels")
    output = written_out(model, replaced, layers.Rescaling(1 / 255, name="to_unit")(pixels))
    return tf.keras.Model(pixels, output, name=model.name)


def _called(layer: tf.keras.layers.Layer, x: Any, weights: list[np.ndarray]) -> Any:
    """What a new layer makes of x, with these weights."""
    output = layer(x)
    layer.set_weights(weights)
    return output
