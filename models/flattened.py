"""A model without models inside it: the same layers and variables as one flat graph.

What reads a graph layer by layer (cuts, embeddings, heat maps) cannot look into a model that is called as a layer.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def flattened(model: tf.keras.Model) -> tf.keras.Model:
    """The functional model with every model inside it written out; itself where there is none.

    A model that was called with `training=False` stays in inference mode: its layers are called so.
    """
    if not any(isinstance(layer, tf.keras.Model) for layer in model.layers):
        return model
    return tf.keras.Model(model.inputs, _written_out(model, model.inputs, None), name=model.name)


def _written_out(model: tf.keras.Model, inputs: list[Any], training: bool | None) -> Any:
    """The model's outputs for these inputs, through its layers one by one."""
    made = {id(tensor): entry for tensor, entry in zip(model.inputs, inputs)}
    # The graph's nodes by depth, as Keras itself plays them: each after those that it takes something from.
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            if not node.is_input:
                outputs = _called(node, made, training)
                made.update(zip(map(id, tf.nest.flatten(node.outputs)), tf.nest.flatten(outputs)))
    return tf.nest.map_structure(lambda tensor: made[id(tensor)], model.output)


def _called(node: Any, made: dict[int, Any], training: bool | None) -> Any:
    layer = node.layer
    arguments, named = tf.nest.map_structure(
        lambda value: made.get(id(value), value), (node.call_args, node.call_kwargs)
    )
    mode = named.get("training")
    training = training if mode is None else mode
    if _is_functional(layer):
        return _written_out(layer, tf.nest.flatten(arguments), training)
    if training is not None and layer._call_spec.expects_training_arg:
        named = {**named, "training": training}
    return layer(*arguments, **named)


def _is_functional(layer: tf.keras.layers.Layer) -> bool:
    return isinstance(layer, tf.keras.Model) and hasattr(layer, "_nodes_by_depth")
