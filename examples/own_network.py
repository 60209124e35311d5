"""A network of one's own, in any classifier of the project, without touching the package.

    python -m tffapps classify --model examples.own_network:small --weights random --data my_images --results my_results

It is a function (input_shape, classes) → a functional Keras model of images in [0,1] that ends in a softmax.
docs/weights.md says what is checked, and how a network may name layers at which --train-from cuts it.
"""

from __future__ import annotations

import tensorflow as tf

layers = tf.keras.layers


def small(input_shape: tuple[int, int, int], classes: int) -> tf.keras.Model:
    """Three residual blocks with squeeze-and-excitation: 60 thousand parameters in colour."""
    images = layers.Input(input_shape)
    x = layers.Rescaling(2.0, -1.0)(images)
    for number, filters in enumerate((16, 32, 64), start=1):
        x = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(x)
        y = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        gate = layers.Dense(filters, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(y))
        x = layers.Add(name=f"block{number}")([x, y * gate])
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return tf.keras.Model(images, layers.Dense(classes, activation="softmax")(x))
