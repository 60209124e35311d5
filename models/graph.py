"""A model's own graph of Keras tensors.

A layer that several models share has an output in each of them, and `layer.output` is the first one's. Whatever cuts or
rebuilds a model therefore goes from its output back to its input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def tensors(model: tf.keras.Model, start: Any = None) -> list[Any]:
    """All between `start` (default: the input) and the output, the output included, each after those it is made of.

    Raises `ValueError` where the output depends on more than `start`.
    """
    start = model.input if start is None else start
    found: dict[int, Any] = {}
    waiting = [model.output]
    while waiting:
        tensor = waiting[-1]
        if tensor is start or id(tensor) in found:
            waiting.pop()
            continue
        if tensor.node.is_input:
            raise ValueError(f"model {model.name}: more than one tensor crosses the cut; choose another place")
        missing = [source for source in tensor.node.keras_inputs if source is not start and id(source) not in found]
        waiting += missing
        if not missing:
            found[id(tensor)] = tensor
    return list(found.values())


def output_of(model: tf.keras.Model, layer: str) -> Any:
    """What the layer of this name gives in this model."""
    wanted = model.get_layer(layer)  # raises ValueError for an unknown name
    return next(tensor for tensor in tensors(model) if tensor.node.layer is wanted)


def rebuilt(
    model: tf.keras.Model, start: Any, entry: Any, replaced: Mapping[str, tf.keras.layers.Layer] | None = None
) -> Any:
    """The model's output where `entry` takes the place of the tensor `start`, through the same layers.

    `replaced` has layers to be taken instead of those of these names.
    """
    made = {id(start): entry}
    for tensor in tensors(model, start):
        inputs = [made[id(source)] for source in tensor.node.keras_inputs]
        layer = (replaced or {}).get(tensor.node.layer.name, tensor.node.layer)
        made[id(tensor)] = layer(inputs if len(inputs) > 1 else inputs[0])
    return made[id(model.output)]
