"""Many small clients, the workload: a network of 6.5 thousand parameters, clients of 8 images of 32×32 in files.

What is measured on it is in `clients.py` and elsewhere; here is nothing but the files, whose they are, and the network,
so that every contender trains the same on the same images: plain SGD, one epoch a round, one batch a client.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SIDE, CHANNELS, CLASSES = 32, 3, 10
IMAGES = BATCH = 8  # of a client
LEARNING_RATE = 0.01


def files(count: int) -> tuple[list[str], list[int]]:
    """Paths of `count` PNG files, drawn once, and their labels; neighbours are of different classes."""
    from tffapps.data import textures

    per_class = max(3, -(-count // CLASSES))
    folder = ROOT / "data" / f"benchmark-{SIDE}-{per_class * CLASSES}"
    textures.write_textures(folder, clients=1, per_class=per_class, size=SIDE, classes=CLASSES)
    paths = sorted(folder.rglob("*.png"), key=lambda path: (path.name, path.parent.name))[:count]
    return [str(path) for path in paths], [int(path.parent.name.rpartition("_")[2]) for path in paths]


def parts(clients: int, images: int = 0) -> list[slice]:
    """Which of the files are whose: `IMAGES` each, or equal shares of `images`."""
    count = images or clients * IMAGES
    return [slice(count * index // clients, count * (index + 1) // clients) for index in range(clients)]


def network(width: int = 12) -> Any:
    """A Keras model that ends in a softmax, 6,510 parameters unless its dense layer has another width."""
    import tensorflow as tf

    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Input((SIDE, SIDE, CHANNELS)),
            layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
            layers.MaxPool2D(2),
            layers.Flatten(),
            layers.Dense(width, activation="relu"),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )
