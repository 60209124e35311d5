"""Denoisers of stain matrices (FedSDA, Table 1 and Figure 4): (w_t, t, client) → the noise in w_t.

A stain matrix is six numbers. The transformer makes a token of each, and one of the time and one of the client; its
single block lets them look at each other. The token-wise MLP, the paper's rival as its code has it, has the same tokens
and no attention: what becomes of a number knows neither the time nor the client nor the other numbers. The plain MLP,
ours, sees all of them side by side. With five clients they have 13.2, 4.8 and 4.7 thousand parameters.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from models.ddpm import Schedule
from models.initialise import seed_weights

layers = tf.keras.layers

BLOCKS = ("transformer", "token-mlp", "mlp")
NUMBERS = 6  # of a stain matrix
WIDTH, HEADS, MLP_RATIO = 32, 8, 4
CLIENT_EMBEDDING = "client_embedding"
_SLOWEST = 10_000.0  # the longest period of the time embedding, in steps


def build(block: str, *, clients: int, schedule: Schedule | None = None, seed: int = 0) -> tf.keras.Model:
    """Inputs [noisy (n, 6), time (n) from 1 to T, client (n) from 0]; output (n, 6)."""
    if block not in BLOCKS:
        raise ValueError(f"block {block}: unknown; choose one of {', '.join(BLOCKS)}")
    noisy = layers.Input((NUMBERS,), name="noisy")
    time = layers.Input((), dtype=tf.int32, name="time")
    client = layers.Input((), dtype=tf.int32, name="client")
    when = TimeEmbedding(name="time_embedding")(time)
    apart = tf.keras.initializers.RandomNormal(stddev=1.0)  # clients apart from the beginning, like the times
    who = layers.Embedding(clients, WIDTH, embeddings_initializer=apart, name=CLIENT_EMBEDDING)(client)
    found = {"transformer": _transformer, "token-mlp": _token_mlp, "mlp": _mlp}[block](noisy, when, who)
    noise = Noise(schedule or Schedule(), name="noise")([noisy, time, found])
    model = tf.keras.Model([noisy, time, client], noise, name=f"stain_{block}")
    start(model, seed)
    return model


def start(model: tf.keras.Model, seed: int) -> None:
    """Sets the weights to what they are before any training."""
    seed_weights(model, seed)


def _transformer(noisy: Any, when: Any, who: Any) -> Any:
    x = _tokens(noisy, when, who)
    together = layers.Dense(3 * WIDTH, use_bias=False, name="qkv")(layers.LayerNormalization(name="norm_1")(x))
    x = layers.Add()([x, layers.Dense(WIDTH, name="attended")(Attend(name="attend")(together))])
    hidden = layers.Dense(WIDTH * MLP_RATIO, activation=_gelu, name="mlp_1")(
        layers.LayerNormalization(name="norm_2")(x)
    )
    return _numbers(layers.Add()([x, layers.Dense(WIDTH, name="mlp_2")(hidden)]))


def _token_mlp(noisy: Any, when: Any, who: Any) -> Any:
    x = layers.Dense(2 * WIDTH, activation=_gelu, name="mlp_1")(_tokens(noisy, when, who))
    return _numbers(layers.Dense(WIDTH, activation=_gelu, name="mlp_2")(x))


def _tokens(noisy: Any, when: Any, who: Any) -> Any:
    """(n, 8, width): six numbers, the time, the client."""
    numbers = layers.Dense(WIDTH, name="tokens")(layers.Reshape((NUMBERS, 1))(noisy))
    conditions = [layers.Reshape((1, WIDTH))(token) for token in (when, who)]
    return Positions(name="positions")(layers.Concatenate(axis=1)([numbers, *conditions]))


def _numbers(tokens: Any) -> Any:
    """One of each of the first six; what comes of time and client is not asked for."""
    x = layers.Dense(1, name="found")(layers.LayerNormalization(name="norm_3")(tokens))
    return layers.Reshape((NUMBERS,))(layers.Cropping1D((0, 2))(x))


def _mlp(noisy: Any, when: Any, who: Any) -> Any:
    x = layers.Dense(WIDTH, name="project")(layers.Concatenate()([noisy, when, who]))
    hidden = layers.Dense(WIDTH, activation=_gelu, name="mlp_1")(x)
    x = layers.Add()([x, layers.Dense(WIDTH, activation=_gelu, name="mlp_2")(hidden)])
    return layers.Dense(NUMBERS, name="found")(x)


def _gelu(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.gelu(x, approximate=True)


class TimeEmbedding(tf.keras.layers.Layer):
    """Sines and cosines of the time at geometrically spaced frequencies; nothing is learned."""

    def call(self, time: tf.Tensor) -> tf.Tensor:
        half = WIDTH // 2
        frequencies = tf.exp(-math.log(_SLOWEST) * tf.range(half, dtype=tf.float32) / half)
        angles = tf.cast(time, tf.float32)[:, tf.newaxis] * frequencies
        return tf.concat([tf.sin(angles), tf.cos(angles)], axis=1)


class Noise(tf.keras.layers.Layer):
    """√(1 − ᾱ_t) x_t + √ᾱ_t · found: what the network finds is added to the best guess for standard normal data.

    Standardised stains are nearly that, so an untrained network already draws from all clients' stains together, and
    what is left to learn is how each client's differ.
    """

    def __init__(self, schedule: Schedule, **options: Any) -> None:
        super().__init__(**options)
        self.schedule = schedule

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        noisy, time, found = inputs
        product = tf.gather(tf.constant(self.schedule.products, tf.float32), time - 1)[:, tf.newaxis]
        return tf.sqrt(1 - product) * noisy + tf.sqrt(product) * found


class Positions(tf.keras.layers.Layer):
    """Adds a learned vector to each token."""

    position_initializer = tf.keras.initializers.RandomNormal(stddev=0.02)

    def build(self, shape: tf.TensorShape) -> None:
        self.position = self.add_weight(
            "position", (int(shape[1]), int(shape[2])), initializer=self.position_initializer
        )

    def call(self, tokens: tf.Tensor) -> tf.Tensor:
        return tokens + self.position


class Attend(tf.keras.layers.Layer):
    """Every token looks at every token: queries, keys and values side by side (n, tokens, 3 · width) → what it saw."""

    def call(self, together: tf.Tensor) -> tf.Tensor:
        shape = [-1, together.shape[1], 3, HEADS, WIDTH // HEADS]
        query, key, value = tf.unstack(tf.reshape(together, shape), axis=2)  # each (n, tokens, heads, numbers)
        # Products of numbers and sums: XLA, by which samples are drawn, makes one loop of them, but is slow with
        # thousands of tiny matrix products. In training both take as long.
        pairs = query[:, :, tf.newaxis] * key[:, tf.newaxis]  # (n, tokens, tokens, heads, numbers)
        weights = tf.nn.softmax(tf.reduce_sum(pairs, axis=-1, keepdims=True) / math.sqrt(WIDTH // HEADS), axis=2)
        return tf.reshape(tf.reduce_sum(weights * value[:, tf.newaxis], axis=2), [-1, together.shape[1], WIDTH])
