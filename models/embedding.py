"""A classifier with its embeddings beside its probabilities."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from models.dropout import ImageDropout


def with_embedding(model: tf.keras.Model) -> tf.keras.Model:
    """Input → (embedding, probabilities), sharing the layers of any classifier that ends in a dense layer.

    The embedding is what that layer sees, before dropout if there is any; the probabilities are the model's own. Also
    for a head on stored feature maps.
    """
    return tf.keras.Model(model.input, [_embedding(model), model.output], name=f"{model.name}_with_embedding")


@functools.lru_cache(maxsize=8)
def embedding_of(model: tf.keras.Model) -> tf.keras.Model:
    """Input → embedding, sharing the layers; the same for the same model, so that it is traced once."""
    return tf.keras.Model(model.input, _embedding(model), name=f"{model.name}_embedding")


def embedding_size(model: tf.keras.Model) -> int:
    return int(_embedding(model).shape[-1])


def classifying_layer(model: tf.keras.Model) -> tf.keras.layers.Layer:
    """The dense layer that a classifier ends in."""
    _embedding(model)  # it does
    return model.output.node.layer


def _embedding(model: tf.keras.Model) -> Any:
    # By the graph and not by the names of layers: a head's layers belong to two models, and their outputs are two.
    kinds = tf.keras.layers
    logits = _input_of(model.output, (kinds.Activation, kinds.Softmax))
    found = _input_of(model.output if logits is None else logits, kinds.Dense)
    if found is None or found.shape.rank != 2:
        raise ValueError(f"model {model.name}: it does not end in a dense layer on vectors, so it has no embeddings")
    before = _input_of(found, (kinds.Dropout, ImageDropout))
    return found if before is None else before


def _input_of(tensor: Any, kind: type | tuple[type, ...]) -> Any:
    """What the layer behind a Keras tensor takes first, if the layer is of that kind."""
    node = tensor.node
    return node.keras_inputs[0] if isinstance(node.layer, kind) else None
