"""A classifier cut in two: below, a base that is frozen and in inference mode; above, what is trained.

The base runs once an image, and what crosses the cut can be stored. `models.names` has the places: "head", below the
head; the named ones of each network; "all", no cut. Two ways to use a place in the middle:

    split(model, stage)                         the rest of the network is trained
    split(headed(model, stage, …), "head")      a new head stands right on the cut, the rest of the network is dropped

`normalised` says what becomes of BatchNorm above the cut. All of these share layers with the model they are given:
weights loaded into that are theirs too.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from models.classifiers import head_on
from models.graph import output_of, rebuilt, tensors
from models.initialise import seed_weights
from models.names import ALL, CUTS, FLOAT32, HEAD, check_cut, check_head, check_norm
from models.norms import GroupNorm

layers = tf.keras.layers

_NEW_HEAD = "head_"  # how layers of a convolutional head are called
_ENTRY = "cut_input"


def split(model: tf.keras.Model, stage: str) -> tuple[tf.keras.Model | None, tf.keras.Model]:
    """(image → what crosses the cut, that → probabilities). The base is frozen; with "all" there is none.

    In Keras a BatchNorm layer that is frozen is in inference mode, also while the rest is trained.
    """
    _check(model, stage)
    if stage == ALL:
        return None, model
    crossing = _crossing(model, stage)
    base = tf.keras.Model(model.input, crossing, name=f"{model.name}_below_{stage}")
    entry = layers.Input(crossing.shape[1:], name=_ENTRY)
    rest = tf.keras.Model(entry, rebuilt(model, crossing, entry), name=f"{model.name}_above_{stage}")
    base.trainable = False
    return base, rest


def below(model: tf.keras.Model, stage: str) -> frozenset[str]:
    """The names of the layers of the base."""
    if stage == ALL:
        return frozenset()
    return frozenset(layer.name for layer in tf.keras.Model(model.input, _crossing(model, stage)).layers)


def headed(
    model: tf.keras.Model, stage: str, head: str = "conv", *, seed: int = 0, dropout: float = 0.0
) -> tf.keras.Model:
    """The model as far as the cut with a new head on it, of as many classes; the head's weights are of the seed."""
    _check(model, stage)
    check_head(head)
    if stage == ALL:
        raise ValueError(f"cut {ALL}: a head needs a feature map to stand on; choose another cut")
    crossing = _crossing(model, stage)
    features = layers.Activation("linear", name="features", dtype=FLOAT32)(crossing)  # below the new head: frozen
    probabilities = head_on(features, head, int(model.output_shape[-1]), dropout, seed)
    short = tf.keras.Model(model.input, probabilities, name=f"{model.name}_{stage}")
    entry = layers.Input(crossing.shape[1:], name=_ENTRY)
    seed_weights(tf.keras.Model(entry, rebuilt(short, crossing, entry)), seed)
    return short


def normalised(model: tf.keras.Model, stage: str, norm: str) -> tf.keras.Model:
    """The model with this normalisation above the cut.

    "batch" leaves BatchNorm as it is, with statistics that training moves. "group" puts group normalisation in its
    place, with the same scale and shift. "frozen" keeps the statistics, scale and shift that came with the weights; a
    new convolutional head has none to keep, and gets group normalisation.
    """
    _check(model, stage)
    check_norm(norm)
    if norm == "batch":
        return model
    start = model.input if stage == ALL else _crossing(model, stage)
    replaced = {}
    for layer in (tensor.node.layer for tensor in tensors(model, start)):
        if isinstance(layer, layers.BatchNormalization):
            if norm == "group" or layer.name.startswith(_NEW_HEAD):
                replaced[layer.name] = GroupNorm(layer, name=layer.name)
            else:
                layer.trainable = False
    if not replaced:
        return model
    return tf.keras.Model(model.input, rebuilt(model, start, start, replaced), name=model.name)


def _check(model: tf.keras.Model, stage: str) -> None:
    if stage in (HEAD, ALL):
        return
    if model.name not in CUTS:
        if stage in {layer.name for layer in model.layers}:  # of a network of the user's own, which says so itself
            return
        raise ValueError(f"cut {stage}: model {model.name} can be cut at {HEAD} or {ALL} only")
    check_cut(model.name, stage)


def _crossing(model: tf.keras.Model, stage: str) -> Any:
    return output_of(model, "features" if stage == HEAD else CUTS.get(model.name, {}).get(stage, stage))
