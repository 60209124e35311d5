"""A model without models inside it: the same layers and variables as one flat graph.

What reads a graph layer by layer (cuts, embeddings, heat maps) cannot look into a model that is called as a layer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# (layer, what it is called with) → what it gives; None: the layer itself is called
Instead = Callable[[tf.keras.layers.Layer, Any], Any]


def flattened(model: tf.keras.Model) -> tf.keras.Model:
    """The functional model with every model inside it written out; itself where there is none.

    A model that was called with `training=False` stays in inference mode: its layers are called so.
    """
    if not any(isinstance(layer, tf.keras.Model) for layer in model.layers):
        return model
    return tf.keras.Model(model.inputs, written_out(model), name=model.name)


def written_out(
    model: tf.keras.Model,
    instead: Instead = lambda layer, given: None,
    entry: Any = None,
    training: bool | None = None,
) -> Any:
    """The model's output from its input, through its layers one by one, or through others in their place.

    `entry` takes the input's place. `training`: the mode of layers that the model itself does not call in one.
    """
    return _from(model, model.inputs if entry is None else [entry], training, instead)


def is_functional(layer: tf.keras.layers.Layer) -> bool:
    """Whether it is a model whose graph is known: functional, or sequential with an input."""
    return isinstance(layer, tf.keras.Model) and hasattr(layer, "_nodes_by_depth")


def _from(model: tf.keras.Model, inputs: list[Any], training: bool | None, instead: Instead) -> Any:
    made = {id(tensor): entry for tensor, entry in zip(model.inputs, inputs)}
    # The graph's nodes by depth, as Keras itself plays them: each after those that it takes something from.
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            if not node.is_input:
                outputs = _called(node, made, training, instead)
                made.update(zip(map(id, tf.nest.flatten(node.outputs)), tf.nest.flatten(outputs)))
    return tf.nest.map_structure(lambda tensor: made[id(tensor)], model.output)


def _called(node: Any, made: dict[int, Any], training: bool | None, instead: Instead) -> Any:
    layer = node.layer
    arguments, named = tf.nest.map_structure(
        lambda value: made.get(id(value), value), (node.call_args, node.call_kwargs)
    )
    mode = named.get("training")
    training = training if mode is None else mode
    if is_functional(layer):
        return _from(layer, tf.nest.flatten(arguments), training, instead)
    other = instead(layer, arguments[0] if arguments else None) if training is not False else None
    if other is not None:
        return other
    if training is not None and layer._call_spec.expects_training_arg:
        named = {**named, "training": training}
    return layer(*arguments, **named)
