"""Where the micrographs come from: folders of images and labels, a manifest with masks, or the stand-in.

Test tiles are the same for every seed and fold. With `--folds 1` a client's other tiles are divided once, to train and
to validate with, as the data has it or 560 to 140; with more, every fold validates with another part of them.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import cv2
import numpy as np
import pandas as pd

from preprocessing import image_bytes
from tffapps import STANDIN, Common, Flags, Pool, Rejected, UserError, cache_folder, data_folder, short
from tffapps.data import cache, grains, layouts, made, manifest, micrographs, standin
from tffapps.data.micrograph_labels import Coding, coding_of
from tffapps.fedtransfer import GLOBAL, StandinSettings, TileSettings

FORMATS = ("png",)  # of tiles, and of what is painted
_LAYOUT = "lay the files out as <client>/images/* and <client>/labels/*"
_SHOWN = 3  # widths of tiles


@dataclasses.dataclass(frozen=True)
class Tiles:
    """The tiles of one fold."""

    pool: Pool  # rows have masks
    codings: dict[str, Coding]  # how each client's labels are written
    size: tuple[int, int]  # of all tiles: height and width
    fold: int = 0

    @property
    def clients(self) -> list[str]:
        """In the order of the data."""
        return list(self.codings)

    def part(self, split: str, client: str | None = None) -> pd.DataFrame:
        """The rows of a split, of all clients or of one."""
        return self.pool.part(split, client)


def load(flags: Flags) -> list[Tiles]:
    """The tiles of what --data has, or of the stand-in, for each fold; folds differ in their splits alone."""
    notes: list[str] = []
    source = _source(flags)
    table = _read(source, notes)
    folds, codings = cut(table, flags[TileSettings])
    size = one_size(sizes_of(folds[0]))
    pools = [
        Pool(
            _name(source),
            fold,
            manifest.classes(fold),
            manifest.fingerprint(fold),
            FORMATS,
            given=True,
            notes=tuple(notes),
        )
        for fold in folds
    ]
    return [Tiles(pool, codings, size, number) for number, pool in enumerate(pools)]


def cut(table: pd.DataFrame, settings: TileSettings) -> tuple[list[pd.DataFrame], dict[str, Coding]]:
    """Tiles of what `micrographs.read` gives, a table for each fold, and how labels are written.

    A client's part in it does not depend on the others: a site does the same with its own micrographs.
    """
    table, codings = micrographs.prepared(
        table, cache_folder() / "tiles", tile=settings.tile, size=settings.size, most=settings.tiles
    )
    return [table] if settings.folds == 1 else micrographs.folds(table, settings.folds), codings


def look(flags: Flags) -> Pool:
    """What a run would find in --data; tiles are counted and not cut: a row is the micrograph that one is from."""
    settings, notes = flags[TileSettings], list[str]()
    source = _source(flags)
    table = _read(source, notes)
    parts, sizes = [], dict[tuple[int, int], str]()
    for client, part in table.groupby("client", sort=False):
        coding, label_sizes = coding_of(str(client), list(part["mask"]), progress=True)
        notes.append(f"labels of {client}: boundaries are {coding.boundary}, {100 * coding.share:.0f} % of the pixels")
        sides = [settings.tile or min(size) for size in label_sizes]
        pairs = zip(part.path, part["mask"], label_sizes, sides)
        counts = [_tile_count(path, label, size, side) for path, label, size, side in pairs]
        parts.append(part.loc[part.index.repeat(counts)])
        for side in sides:
            sizes.setdefault((side, side), str(client))
    if not settings.size:
        one_size(sizes)
    wide = " or ".join(str(side) for side, _ in sorted(sizes)[:_SHOWN])
    notes.append(f"files: {len(table)}, of {table.subject.nunique()} micrographs; a tile is {wide} pixels wide")
    tiles = pd.concat(parts, ignore_index=True)
    if "split" not in tiles:
        tiles = tiles.assign(split=manifest.SPLITS[0])
    tiles = micrographs.thinned(tiles, settings.tiles)
    if not (tiles.split != manifest.SPLITS[0]).any():
        tiles = micrographs.divide(tiles)
    if settings.folds > 1:
        tiles = micrographs.folds(tiles, settings.folds)[0]
    columns = tiles[["path", "client", "split"]]  # all of one class, which tells a user nothing
    return Pool(_name(source), columns, [micrographs.LABEL], key="", given=True, noun="tiles", notes=tuple(notes))


def _tile_count(path: str, label: str, size: tuple[int, int], tile: int) -> int:
    """How many tiles a micrograph has; `size` is its label's."""
    try:
        high, wide = made.decode(cache.read(path)).shape[:2]
    except Rejected as rejected:
        raise UserError(f"{short(path)}: {rejected}; save the image again or remove it and its label") from None
    if (high, wide) != size:
        raise UserError(
            f"{short(path)}: {wide} × {high} pixels, but its label {short(label)} has {size[1]} × {size[0]}; "
            "bring both to one size"
        )
    if min(size) < tile:
        raise UserError(
            f"{short(path)}: {wide} × {high} pixels, smaller than a tile; choose --tile {min(size)} or less"
        )
    return (high // tile) * (wide // tile)


def _name(source: pathlib.Path) -> str:
    """What tables call it."""
    return STANDIN if standin.is_standin(source) else source.resolve().stem


def _source(flags: Flags) -> pathlib.Path:
    if flags[Common].data:
        return pathlib.Path(flags[Common].data)
    standins = flags[StandinSettings]
    folder = data_folder() / f"grains-{standins.standin_size}-{standins.standin_images}"
    return grains.write_grains(folder, images=standins.standin_images, size=standins.standin_size)


def _read(source: pathlib.Path, notes: list[str]) -> pd.DataFrame:
    """The micrographs of two clients or more."""
    table = layouts.read(source, ("micrographs",), notes)
    check_clients(list(dict.fromkeys(table.client)), f"--data {source}", _LAYOUT)
    return table


def check_clients(clients: Sequence[str], source: str, remedy: str) -> None:
    """Refuses a single client, and one whose name the tables use."""
    if len(clients) < 2:
        raise UserError(f"{source}: only one client, {clients[0]}; generators travel between two or more: {remedy}")
    if GLOBAL in clients:
        raise UserError(f"{source}: a client called {GLOBAL}, as tables call all test tiles; rename it")


def sizes_of(table: pd.DataFrame) -> dict[tuple[int, int], str]:
    """The sizes of tiles, and a client that has each; not more than two, which is one too many."""
    sizes: dict[tuple[int, int], str] = {}
    for path, client in zip(table["mask"], table.client):
        height, width = _decoded(path).shape
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
    images = [_decoded(path, flag) for path in rows.path]
    return np.stack([image[..., None] if channels == 1 else image[..., ::-1] for image in images])


def masks_of(rows: pd.DataFrame) -> np.ndarray:
    """uint8 (n, height, width), 1 on boundaries, else 0."""
    return np.stack([_decoded(path) > 127 for path in rows["mask"]]).astype(np.uint8)


def _decoded(path: str, flag: int = cv2.IMREAD_GRAYSCALE) -> np.ndarray:
    try:
        return image_bytes.decode(pathlib.Path(path).read_bytes(), flag)
    except (OSError, Rejected) as error:  # a tile was written here: gone or damaged since
        raise UserError(f"{path}: {error}; it could be read before: remove it and run the command again") from None
