"""Do painted images carry the look of the client whose generator painted them?

A small classifier learns from real training tiles which client each is from. It is tried on real test tiles, to know
what it is worth, and on painted images: those that it takes for the sender's have the sender's look, though their
grains are the receiver's.
"""

import json

import cv2
import numpy as np
import pandas as pd
import tensorflow as tf

from models import classifiers
from models.initialise import seed_weights
from tffapps import cache_folder, key_of, replacing
from tffapps.data import pipeline
from tffapps.fedtransfer.data import Tiles, images_of
from tffapps.fedtransfer.exchange import Made

_SIDE = 128  # pixels of what the classifier sees, at most
_BATCH, _STEPS, _RATE = 32, 150, 2e-3


def seen(tiles: Tiles, made: Made, channels: int) -> pd.DataFrame:
    """`images` ("real" or "painted"), `look` (the client's that they should have), `count` and `share` called so."""
    known = key_of({"data": tiles.pool.key, "made": made.key, "channels": channels, "seed": made.seed, "version": 1})
    file = cache_folder() / "looks" / f"{known}.json"
    if file.exists():
        return pd.DataFrame(json.loads(file.read_text()))
    model = _trained(tiles, channels, made.seed)
    rows = []
    for code, client in enumerate(tiles.clients):
        painted = made.table[made.table.sender == client]
        for kind, images in (("real", tiles.part("test", client)), ("painted", painted)):
            called = np.argmax(model.predict(_seen(images, channels), _BATCH, verbose=0), axis=-1)
            share = float(np.mean(called == code))
            rows.append({"images": kind, "look": client, "count": len(images), "share": share, "seed": made.seed})
    with replacing(file) as out:
        json.dump(rows, out)
    return pd.DataFrame(rows)


def _trained(tiles: Tiles, channels: int, seed: int) -> tf.keras.Model:
    rows = tiles.part("train")
    pictures, codes = _seen(rows, channels), [tiles.clients.index(client) for client in rows.client]
    model = classifiers.build("tiny", input_shape=pictures.shape[1:], classes=len(tiles.clients))
    seed_weights(model, seed)
    model.compile(tf.keras.optimizers.Adam(_RATE), "sparse_categorical_crossentropy")
    epochs = -(-_STEPS * _BATCH // len(rows))
    model.fit(pipeline.from_arrays(pictures, codes, batch=_BATCH, epochs=epochs, seed=seed), verbose=0)
    return model


def _seen(rows: pd.DataFrame, channels: int) -> np.ndarray:
    """float32 (n, side, side, channels) in [0, 1]"""
    pictures = images_of(rows, channels)
    side = min(_SIDE, *pictures.shape[1:3])
    small = [cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA) for picture in pictures]
    return np.stack(small).reshape(len(small), side, side, channels).astype(np.float32) / 255
