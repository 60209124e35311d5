"""A network small enough for smoke tests that still has what makes federated averaging hard: BatchNorm."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

layers = tf.keras.layers

FILTERS = (8, 16, 32)


def tiny_features(x: Any) -> Any:
    """Image → feature map of 32 channels at 1/8 of the size."""
    for block, filters in enumerate(FILTERS, start=1):
        x = layers.Conv2D(
            filters,
            3,
            padding="same",
            use_bias=False,
            kernel_initializer="he_normal",
            name=f"block{block}_conv",
        )(x)
        # 0.9: smoke runs last a few dozen steps, too few for Keras's 0.99 to forget the initial statistics.
        x = layers.BatchNormalization(momentum=0.9, name=f"block{block}_bn")(x)
        x = layers.ReLU(name=f"block{block}_relu")(x)
        x = layers.MaxPooling2D(2, name=f"block{block}_pool")(x)
    return x
