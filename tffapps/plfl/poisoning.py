"""A client that spoils its data: wrong labels where it has labels (csfl), ruined images where it has none (plfl).

The thesis claims that its framework withstands poisoning and does not measure it.
"""

import os

import cv2
import numpy as np
import pandas as pd

from preprocessing.knee import decode, encode
from tffapps import cache_folder
from tffapps.data import oai
from tffapps.data.cache import cached_images

POISONER = oai.CLIENTS[0]  # where the data names its own clients, the first of them
KINDS = {"csfl": "labels changed", "plfl": "images ruined", "plfl+": "images ruined"}
_TILES = 7


def poisoned(
    table: pd.DataFrame, framework: str, share: float, classes: list[str], seed: int, client: str = POISONER
) -> pd.DataFrame:
    """The table with `share` of the client's training data spoilt."""
    rng = np.random.default_rng([seed, 77])
    rows = table.index[(table.client == client) & (table.split == "train")].to_numpy()
    chosen = rng.permutation(rows)[: round(share * len(rows))]
    table = table.copy()
    if KINDS[framework] == "labels changed":
        steps = rng.integers(1, len(classes), len(chosen))
        codes = np.array([classes.index(label) for label in table.label[chosen]], int)
        table.loc[chosen, "label"] = [classes[code] for code in (codes + steps) % len(classes)]
    else:
        paths, _ = cached_images(list(table.path[chosen]), ruin, {"tiles": _TILES}, cache_folder() / "ruined")
        table.loc[chosen, "path"] = [os.path.abspath(str(path)) for path in paths]
    return table


def ruin(contents: bytes, tiles: int) -> bytes:
    """A negative of the image, its tiles shuffled, under noise: nothing of the joint is left, the greys nearly are."""
    image = decode(contents)
    tiles = min(tiles, *image.shape)
    rng = np.random.default_rng(np.frombuffer(contents[-24:-16], np.uint8))
    side = [length // tiles for length in image.shape]
    pieces = [
        image[row * side[0] : (row + 1) * side[0], column * side[1] : (column + 1) * side[1]]
        for row in range(tiles)
        for column in range(tiles)
    ]
    order = rng.permutation(len(pieces))
    rows = [np.hstack([pieces[number] for number in order[row * tiles : (row + 1) * tiles]]) for row in range(tiles)]
    shuffled = cv2.resize(np.vstack(rows), image.shape[::-1]).astype(np.float32)
    noisy = 255.0 - shuffled + rng.normal(0, 30, image.shape)
    return encode(np.clip(noisy, 0, 255).astype(np.uint8))
