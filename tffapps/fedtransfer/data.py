"""Where the micrographs come from: folders of images and labels, a manifest with masks, or the stand-in.

Test tiles are the same for every seed and fold. With `--folds 1` a client's other tiles are divided once, to train and
to validate with, as the data has it or 560 to 140; with more, every fold validates with another part of them.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
import pandas as pd

from preprocessing import image_bytes
from preprocessing.errors import Rejected
from tffapps.data import grains, manifest, micrographs, standin
from tffapps.data.micrograph_labels import Coding
from tffapps.errors import UserError
from tffapps.fedtransfer import GLOBAL

CACHE = pathlib.Path("data") / "cache"
_LAYOUT = "lay the files out as <client>/images/* and <client>/labels/*"


@dataclasses.dataclass(frozen=True)
class Pool:
    name: str  # for the tables
    table: pd.DataFrame  # path, mask, client, split, subject, name
    codings: dict[str, Coding]
    key: str  # changes with any tile, client or split
    size: tuple[int, int]  # of all tiles: height and width
    fold: int = 0

    @property
    def clients(self) -> list[str]:
        return list(dict.fromkeys(self.table.client))

    def of(self, split: str, client: str | None = None) -> pd.DataFrame:
        rows = self.table[self.table.split == split]
        return rows if client is None else rows[rows.client == client]


def load(values: dict[str, Any]) -> list[Pool]:
    """One pool for each fold; they differ in their splits alone."""
    name, source = _source(values)
    table = micrographs.read(source)
    check_clients(list(dict.fromkeys(table.client)), f"--data {source}", _LAYOUT)
    folds, codings = cut(table, values)
    size = one_size(sizes_of(folds[0]))
    return [Pool(name, fold, codings, manifest.fingerprint(fold), size, at) for at, fold in enumerate(folds)]


def cut(table: pd.DataFrame, values: Mapping[str, Any]) -> tuple[list[pd.DataFrame], dict[str, Coding]]:
    """Tiles of what `micrographs.read` gives, a table for each fold, and how labels are written.

    A client's part in it does not depend on the others: a site does the same with its own micrographs.
    """
    table, codings = micrographs.prepared(
        table, CACHE / "tiles", tile=values["tile"], size=values["size"], most=values["tiles"]
    )
    return [table] if values["folds"] == 1 else micrographs.folds(table, values["folds"]), codings


def check_clients(clients: Sequence[str], source: str, remedy: str) -> None:
    if len(clients) < 2:
        raise UserError(f"{source}: only one client, {clients[0]}; generators travel between two or more: {remedy}")
    if GLOBAL in clients:
        raise UserError(f"{source}: a client called {GLOBAL}, as tables call all test tiles; rename it")


def _source(values: dict[str, Any]) -> tuple[str, pathlib.Path]:
    if not values["data"]:
        images, size = values["standin_images"], values["standin_size"]
        source = pathlib.Path("data") / f"grains-{size}-{images}"
        return "stand-in", grains.write_grains(source, images=images, size=size)
    source = pathlib.Path(values["data"])
    return "stand-in" if standin.is_standin(source) else source.resolve().stem, source


def sizes_of(table: pd.DataFrame) -> dict[tuple[int, int], str]:
    """The sizes of tiles, and a client that has each; not more than two, which is one too many."""
    sizes: dict[tuple[int, int], str] = {}
    for path, client in zip(table["mask"], table.client):
        height, width = _read(path).shape
        sizes.setdefault((height, width), client)
        if len(sizes) > 1:
            break
    return sizes


def one_size(sizes: Mapping[tuple[int, int], str]) -> tuple[int, int]:
    """Of all tiles: cut to one size, they differ only where each image's own size counts."""
    if len(sizes) > 1:
        (one, first), (other, second) = list(sizes.items())[:2]
        raise UserError(
            f"--tile 0: tiles of {one[1]} × {one[0]} pixels at {first} and of {other[1]} × {other[0]} at {second}; "
            "bring them to one size with --size"
        )
    return next(iter(sizes))


def images_of(rows: pd.DataFrame, channels: int) -> np.ndarray:
    """uint8 (n, height, width, channels)"""
    flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
    read = [_read(path, flag) for path in rows.path]
    return np.stack([image[..., None] if channels == 1 else image[..., ::-1] for image in read])


def masks_of(rows: pd.DataFrame) -> np.ndarray:
    """uint8 (n, height, width), 1 on boundaries, else 0."""
    return np.stack([_read(path) > 127 for path in rows["mask"]]).astype(np.uint8)


def _read(path: str, flag: int = cv2.IMREAD_GRAYSCALE) -> np.ndarray:
    try:
        return image_bytes.decode(pathlib.Path(path).read_bytes(), flag)
    except (OSError, Rejected) as error:  # a tile was written here: gone or damaged since
        raise UserError(f"{path}: {error}; it could be read before: remove it and run the command again") from None
