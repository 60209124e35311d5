"""Do painted images carry the look of the client whose generator painted them?

A small classifier learns from real training tiles which client each is from. It is tried on real test tiles, to know
what it is worth, and on painted images: those that it takes for the sender's have the sender's look, though their
grains are the receiver's.
"""

from __future__ import annotations

import json

import cv2
import numpy as np
import pandas as pd
import tensorflow as tf

from models import classifiers
from models.initialise import seed_weights
from tffapps.data import pipeline
from tffapps.fedtransfer.data import CACHE, Pool, images_of
from tffapps.fedtransfer.exchange import Made
from tffapps.files import replacing
from tffapps.runs import key_of

_SIDE = 128  # pixels of what the classifier sees, at most
_BATCH, _STEPS, _RATE = 32, 150, 2e-3


def seen(pool: Pool, made: Made, channels: int, seed: int) -> pd.DataFrame:
    """`images` ("real" or "painted"), `look` (the client's that they should have), `count` and `share` called so."""
    known = key_of({"data": pool.key, "made": made.key, "channels": channels, "seed": seed, "version": 1})
    file = CACHE / "looks" / f"{known}.json"
    if file.exists():
        return pd.DataFrame(json.loads(file.read_text()))
    model = _trained(pool, channels, seed)
    rows = []
    for place, client in enumerate(pool.clients):
        for kind, tiles in (("real", pool.of("test", client)), ("painted", made.table[made.table.sender == client])):
            called = np.argmax(model.predict(_seen(tiles, channels), _BATCH, verbose=0), axis=-1)
            share = float(np.mean(called == place))
            rows.append({"images": kind, "look": client, "count": len(tiles), "share": share, "seed": seed})
    with replacing(file) as out:
        json.dump(rows, out)
    return pd.DataFrame(rows)


def _trained(pool: Pool, channels: int, seed: int) -> tf.keras.Model:
    tiles = pool.of("train")
    pictures, codes = _seen(tiles, channels), [pool.clients.index(client) for client in tiles.client]
    model = classifiers.build("tiny", input_shape=pictures.shape[1:], classes=len(pool.clients))
    seed_weights(model, seed)
    model.compile(tf.keras.optimizers.Adam(_RATE), "sparse_categorical_crossentropy")
    epochs = -(-_STEPS * _BATCH // len(tiles))
    model.fit(pipeline.from_arrays(pictures, codes, batch=_BATCH, epochs=epochs, seed=seed), verbose=0)
    return model


def _seen(tiles: pd.DataFrame, channels: int) -> np.ndarray:
    """float32 (n, side, side, channels) in [0, 1]"""
    pictures = images_of(tiles, channels)
    side = min(_SIDE, *pictures.shape[1:3])
    small = [cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA) for picture in pictures]
    return np.stack(small).reshape(len(small), side, side, channels).astype(np.float32) / 255
