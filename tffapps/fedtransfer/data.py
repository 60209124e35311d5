"""Where the micrographs come from: folders of images and labels, a manifest with masks, or the stand-in.

Test tiles are the same for every seed and fold. With `--folds 1` a client's other tiles are divided once, to train and
to validate with, as the data has it or 560 to 140; with more, every fold validates with another part of them.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import cv2
import numpy as np
import pandas as pd

from preprocessing import image_bytes
from preprocessing.files import Rejected
from tffapps.data import grains, manifest, micrographs, standin
from tffapps.data.micrograph_labels import Coding
from tffapps.errors import UserError
from tffapps.fedtransfer import GLOBAL

CACHE = pathlib.Path("data") / "cache"


@dataclasses.dataclass(frozen=True)
class Pool:
    name: str  # for the tables
    table: pd.DataFrame  # path, mask, client, split, subject, name
    codings: dict[str, Coding]
    key: str  # changes with any tile, client or split
    size: tuple[int, int]  # of all tiles: height and width

    @property
    def clients(self) -> list[str]:
        return list(dict.fromkeys(self.table.client))

    def of(self, split: str, client: str | None = None) -> pd.DataFrame:
        rows = self.table[self.table.split == split]
        return rows if client is None else rows[rows.client == client]


def load(values: dict[str, Any]) -> list[Pool]:
    """One pool for each fold; they differ in their splits alone."""
    name, source = _source(values)
    table, codings = micrographs.load(
        source, CACHE / "tiles", tile=values["tile"], size=values["size"], most=values["tiles"]
    )
    if table.client.nunique() < 2:
        raise UserError(
            f"--data {source}: only one client, {table.client.iloc[0]}; generators travel between two or more: "
            "lay the files out as <client>/images/* and <client>/labels/*"
        )
    if GLOBAL in set(table.client):
        raise UserError(f"--data {source}: a client called {GLOBAL}, as tables call all test tiles; rename it")
    size = _size(table)
    folds = [table] if values["folds"] == 1 else micrographs.folds(table, values["folds"])
    return [Pool(name, fold, codings, manifest.fingerprint(fold), size) for fold in folds]


def _source(values: dict[str, Any]) -> tuple[str, pathlib.Path]:
    if not values["data"]:
        images, size = values["standin_images"], values["standin_size"]
        source = pathlib.Path("data") / f"grains-{size}-{images}"
        return "stand-in", grains.write_grains(source, images=images, size=size)
    source = pathlib.Path(values["data"])
    return "stand-in" if standin.is_standin(source) else source.resolve().stem, source


def _size(table: pd.DataFrame) -> tuple[int, int]:
    """Of all tiles: cut to one size, they differ only where each image's own size counts."""
    sizes: dict[tuple[int, ...], str] = {}
    for path, client in zip(table["mask"], table.client):
        sizes.setdefault(_read(path).shape, client)
        if len(sizes) > 1:
            (one, first), (other, second) = sizes.items()
            raise UserError(
                f"--tile 0: tiles of {one[1]} × {one[0]} pixels at {first} and of {other[1]} × {other[0]} at {second}; "
                "bring them to one size with --size"
            )
    (height, width) = next(iter(sizes))
    return height, width


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
