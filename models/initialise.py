"""Initial weights that depend on a seed alone.

Keras draws initial weights from global state, and its ready-made networks take no seed. Here every variable
is drawn again, from the distribution its layer asked for, by a generator made of the seed, the layer's place
among the layers with weights and the variable's place in the layer. Two heads on one backbone therefore
start from the same backbone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

# The standard deviation of a unit normal cut off at two: Keras divides by it to keep the variance.
TRUNCATED_STDDEV = 0.87962566103423978


def seed_weights(model: tf.keras.Model, seed: int) -> None:
    """Sets every weight of the model to its initial value under this seed."""
    for layer_index, layer in enumerate(_layers_with_weights(model)):
        values = []
        for index, variable in enumerate(layer.weights):
            generator = np.random.default_rng([seed, layer_index, index])
            values.append(_draw(_initializer(layer, variable), tuple(variable.shape), generator))
        layer.set_weights(values)


def _layers_with_weights(model: tf.keras.Model) -> Iterator[tf.keras.layers.Layer]:
    for layer in model.layers:
        if isinstance(layer, tf.keras.Model):
            yield from _layers_with_weights(layer)
        elif layer.weights:
            yield layer


def _initializer(layer: tf.keras.layers.Layer, variable: tf.Variable) -> Any:
    role = variable.name.split("/")[-1].split(":")[0]  # "block1/conv/kernel:0" -> "kernel"
    attribute = {
        "depthwise_kernel": "depthwise_initializer", "pointwise_kernel": "pointwise_initializer",
    }.get(role, f"{role}_initializer")  # fmt: skip
    if hasattr(layer, attribute):
        return getattr(layer, attribute)
    for part in layer.submodules:  # some layers are made of others, which have the initialisers
        if hasattr(part, attribute) and any(variable is own for own in part.weights):
            return getattr(part, attribute)
    raise TypeError(f"layer {layer.name}: no initialiser known for its variable {variable.name} (no {attribute})")


def _draw(initializer: Any, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    kinds = tf.keras.initializers
    if isinstance(initializer, kinds.Zeros):
        return np.zeros(shape, np.float32)
    if isinstance(initializer, kinds.Ones):
        return np.ones(shape, np.float32)
    if isinstance(initializer, kinds.RandomNormal):
        return initializer.mean + initializer.stddev * generator.standard_normal(shape, dtype=np.float32)
    if isinstance(initializer, kinds.VarianceScaling):  # He, Glorot and LeCun are all of this kind
        variance = initializer.scale / max(1.0, _fan(initializer.mode, shape))
        if initializer.distribution == "uniform":
            limit = np.float32(math.sqrt(3 * variance))
            return limit * (2 * generator.random(shape, dtype=np.float32) - 1)
        if initializer.distribution == "untruncated_normal":
            return np.float32(math.sqrt(variance)) * generator.standard_normal(shape, dtype=np.float32)
        return np.float32(math.sqrt(variance) / TRUNCATED_STDDEV) * _truncated_normal(shape, generator)
    if type(initializer).__module__.startswith("keras"):  # the rest of Keras's own: with a seed they have no state
        settings = initializer.get_config()
        seed = {"seed": int(generator.integers(2**31))} if "seed" in settings else {}
        return type(initializer).from_config({**settings, **seed})(shape).numpy()
    raise TypeError(f"initialiser {type(initializer).__name__}: no seeded version of it is known")


def _fan(mode: str, shape: tuple[int, ...]) -> float:
    """Inputs or outputs per unit, counted as Keras counts them (so also for depthwise kernels)."""
    receptive_field = math.prod(shape[:-2])
    fan_in, fan_out = receptive_field * shape[-2], receptive_field * shape[-1]
    return {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]


def _truncated_normal(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    values = generator.standard_normal(shape, dtype=np.float32)
    while (outside := np.abs(values) > 2).any():
        values[outside] = generator.standard_normal(int(outside.sum()), dtype=np.float32)
    return values
