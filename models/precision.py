"""Mixed precision: layers that compute in 16 bits over weights that stay float32.

    below a cut   float32     what crosses it may be stored, and is the same whatever is trained above
    above it      16 bits     convolutions, normalisation, activations
    the head      float32     from the embedding on: methods compare embeddings, and a softmax needs the digits

A model is built as ever and then copied layer by layer: Keras decides what a layer computes in when it is made.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

import tensorflow as tf

from models.names import FLOAT32, check_precision

_ALWAYS_FLOAT32 = ("embedding", "dropout", "classifier")  # as `models.classifiers` makes them


def policy_of(precision: str) -> str:
    """Keras's name of it."""
    check_precision(precision)
    return precision if precision == FLOAT32 else f"mixed_{precision}"


@contextlib.contextmanager
def made_in(precision: str) -> Iterator[None]:
    """Layers that are made in the block compute in this precision, unless they say otherwise."""
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(policy_of(precision))
    try:
        yield
    finally:
        tf.keras.mixed_precision.set_global_policy(before)


def converted(model: tf.keras.Model, precision: str, stay: Collection[str] = ()) -> tf.keras.Model:
    """A copy with the same weights whose layers compute in this precision, but for the head and those named."""
    if precision == FLOAT32:
        return model

    def copy(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
        config = layer.get_config()
        single = layer.name in (*stay, *_ALWAYS_FLOAT32)
        return type(layer).from_config({**config, "dtype": FLOAT32 if single else policy_of(precision)})

    made = tf.keras.models.clone_model(model, clone_function=copy)
    made.set_weights(model.get_weights())
    return made


def precision_of(model: tf.keras.Model) -> str:
    """What a model computes in: the 16 bits of any of its layers that has some, else float32."""
    found = {layer.compute_dtype for layer in model.layers} - {FLOAT32}
    return next((name for name in sorted(found) if name in ("bfloat16", "float16")), FLOAT32)
