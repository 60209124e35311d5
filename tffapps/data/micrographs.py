"""Micrographs with labelled grain boundaries, the data of FedTransfer, cut into tiles and divided by micrograph.

    <root>/<client>/images/RG16_1_1.jpg     any name, any of the usual formats, any size from one tile on
    <root>/<client>/labels/RG16_1_1.png     the same name but for its end: boundaries dark or light on grains

A manifest with a column mask will do as well. A client is a material. Files named `<micrograph>_<number>…` or
`<micrograph>-<number>…` are parts of one micrograph, which stays in one split; where all of a client's files would then
be one micrograph (`image_001`), the first number belongs to its name.

The tables have the columns of a manifest, with mask (0 grain, 255 boundary), subject (`client/micrograph`), and name
(the file's, and the tile's row and column in it where it was cut).
"""

import hashlib
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pandas as pd

from preprocessing.suffixes import SUFFIXES, stem
from tffapps.data import cache, made, partition
from tffapps.data.manifest import COLUMNS, SPLITS, check, natural_key, read_manifest
from tffapps.data.micrograph_labels import BOUNDARY, GRAIN, Coding, coding_of, read_label
from tffapps.errors import Rejected, UserError
from tffapps.files import short
from tffapps.progress import track

TILE = 400  # pixels on a side, of the paper
SHARES = (560, 140, 192)  # of a client's tiles to train, validate and test with, of the paper
FOLDS = 5  # of the cross-validation, of the paper: 560 + 140 in fifths
LABEL = "grains"  # the class of every row: a manifest wants one
_EXPECTED = "lay the files out as <client>/images/* and <client>/labels/*"
_VERSION = 1  # raise when the tiles of the same files change
_SHOWN = 3
_ENOUGH = 0.3  # of a pixel of a smaller mask: boundary


def load(root: Path, folder: Path, **options: Any) -> tuple[pd.DataFrame, dict[str, Coding]]:
    """The tiles with their splits, and how each client's labels are written; see `prepared`."""
    return prepared(read(root), folder, **options)


def prepared(
    table: pd.DataFrame,
    folder: Path,
    *,
    tile: int = TILE,
    size: int = 0,
    most: int = 0,
    seed: int = 0,
    progress: bool = True,
) -> tuple[pd.DataFrame, dict[str, Coding]]:
    """The same of what `read` gives; `folder` keeps the tiles. A client's do not depend on who the others are.

    `tile` and `size` as in `tiles`; `most` as in `thinned`.
    """
    table, codings = tiles(table, folder, tile=tile, size=size, progress=progress)
    table = thinned(table, most, seed)
    return (table if (table.split != SPLITS[0]).any() else divide(table, seed)), codings


def read(root: Path, notes: list[str] | None = None) -> pd.DataFrame:
    """path, mask (the label's file), client, subject and name of all micrographs, as they are.

    A manifest may have splits besides; a micrograph must not be in two of them.
    """
    root = Path(os.path.abspath(root))
    if root.is_file() and root.suffix.lower() == ".csv":
        return listed(read_manifest(root, notes), short(str(root)))
    if not root.is_dir():
        raise UserError(f"{root}: {'not a folder' if root.exists() else 'no such folder'}; {_EXPECTED}")
    clients = sorted((each.name for each in root.iterdir() if each.is_dir() and each.name[0] != "."), key=natural_key)
    if not clients:
        raise UserError(f"{root}: no folders of clients in it; {_EXPECTED}")
    if {"images", "labels"} <= set(clients):
        raise UserError(f"{root}: images and labels without a client; give the folder above, or {_EXPECTED}")
    return pd.concat([read_client(root / name) for name in clients], ignore_index=True)


def listed(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The micrographs of a manifest; `source` is what errors call it."""
    check(table)
    if "mask" not in table.columns or (table["mask"] == "").any():
        raise UserError(f"{source}: rows without a mask; add a column mask with the label's file")
    names = [Path(path).stem for path in table.path]
    if "subject" not in table.columns:
        subjects = (
            pd.Series(names, table.index).groupby(table.client).transform(lambda own: micrograph_names(list(own)))
        )
        table = table.assign(subject=table.client + "/" + subjects)
        check(table)
    splits = set(table.split)
    if splits != {SPLITS[0]} and splits != set(SPLITS):
        missing = ", ".join(split for split in SPLITS if split not in splits)
        raise UserError(f"{source}: no rows of split {missing}; add some, or leave the column split out")
    return table.assign(name=names)


def tiles(
    table: pd.DataFrame, folder: Path, *, tile: int = TILE, size: int = 0, progress: bool = True
) -> tuple[pd.DataFrame, dict[str, Coding]]:
    """The tiles of what `read` gives, all to train with, and how each client's labels are written.

    Tiles are squares of `tile` pixels, with 0 as large as each image's shorter side. They lie side by side from the
    upper left; what is left over at the right and below is dropped, as the paper's four tiles of 400 from 1024 × 1024
    pixels have it. With `size` they are then brought to that many pixels: clients with different magnifications must
    be brought to one. Tiles and masks are PNG files in `folder`, made once.
    """
    if tile < 0:
        raise UserError(f"--tile {tile}: must be 0 or more")
    folder = Path(os.path.abspath(folder))
    codings, rows = {}, []
    for client, part in table.groupby("client", sort=False):
        name = str(client)
        codings[name], sizes = coding_of(name, part["mask"].tolist(), progress)
        rows_and_sizes = zip(part.to_dict("records"), sizes)
        work = [(row, own, codings[name], folder, tile or min(own), size) for row, own in rows_and_sizes]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for cut in track(pool.map(lambda each: _cut(*each), work), len(work), f"tiles of {name}", progress):
                rows += cut
    return pd.DataFrame(rows, columns=[*COLUMNS, "mask", "subject", "name"]), codings


def thinned(table: pd.DataFrame, most: int, seed: int = 0) -> pd.DataFrame:
    """At most that many tiles of each client (0: all), chosen at random: the paper uses 892 of 2800."""
    if not most:
        return table

    def chosen(client: str) -> np.ndarray:
        rng = np.random.default_rng([seed, 3])  # anew: another client's tiles do not change these
        return rng.permutation(np.flatnonzero(table.client == client))[:most]

    rows = [chosen(client) for client in dict.fromkeys(table.client)]
    return table.iloc[np.sort(np.concatenate(rows))].reset_index(drop=True)


def divide(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The table with each client's tiles to train, validate and test with in SHARES, micrographs whole."""
    parts = _parts(table, SHARES, seed, "to train, validate and test with")
    return table.assign(split=[SPLITS[part] for part in parts])


def folds(table: pd.DataFrame, k: int = FOLDS, seed: int = 0) -> list[pd.DataFrame]:
    """k tables for cross-validation: each validates with another k-th of the micrographs not tested with."""
    if k < 2:
        raise UserError(f"--folds {k}: must be 2 or more")
    ours = (table.split != "test").to_numpy()
    parts = _parts(table[ours], (1,) * k, seed, f"for {k} folds; lower --folds, or give more micrographs")
    result = []
    for fold in range(k):
        split = table.split.to_numpy(copy=True)
        split[ours] = np.where(parts == fold, "val", "train")
        result.append(table.assign(split=split))
    return result


def _parts(table: pd.DataFrame, shares: tuple[int, ...], seed: int, purpose: str) -> np.ndarray:
    """The number of each row's part, divided client by client."""
    parts = np.empty(len(table), int)
    clients = table.client.to_numpy()
    for client in dict.fromkeys(clients):
        rows = np.flatnonzero(clients == client)
        subjects = table.subject.iloc[rows].tolist()
        try:
            parts[rows] = partition.stratified([client] * len(rows), shares, seed, groups=subjects)
        except UserError:
            names = list(dict.fromkeys(subject.rpartition(f"{client}/")[2] for subject in subjects))
            shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            raise UserError(
                f"{client}: {len(rows)} tiles of {len(names)} micrographs ({shown}) are too few {purpose}; files named "
                "<micrograph>_<number> are parts of one micrograph, which is never divided"
            ) from None
    return parts


def read_client(folder: Path) -> pd.DataFrame:
    """What `read` gives, of one client's folder."""
    images, labels = (_files(folder / kind) for kind in ("images", "labels"))
    for ours, others, kind, other in ((images, labels, "image", "label"), (labels, images, "label", "image")):
        alone = [stem for stem in ours if stem not in others]
        if alone:
            shown = ", ".join(os.path.basename(ours[stem]) for stem in alone[:_SHOWN])
            raise UserError(
                f"{short(str(folder))}: {len(alone)} of {len(ours)} {kind}s without {other} of the same name, "
                f"such as {shown}; add the {other} or remove the {kind}"
            )
    stems = sorted(images, key=natural_key)
    table = pd.DataFrame({"path": [images[stem] for stem in stems], "mask": [labels[stem] for stem in stems]})
    subjects = [f"{folder.name}/{name}" for name in micrograph_names(stems)]
    return table.assign(client=folder.name, subject=subjects, name=stems)


def micrograph_names(stems: list[str]) -> list[str]:
    """The micrograph of each of a client's file names; see the top of this file."""
    pieces = [re.split(r"([_-])", stem) for stem in stems]  # name, separator, number, separator, …
    deepest = max((len(piece) for piece in pieces), default=1)
    for kept in range(1, deepest + 1, 2):
        names = [_shortened(piece, kept) for piece in pieces]
        if len(set(names)) > 1:
            return names
    return list(stems)


def _shortened(pieces: list[str], kept: int) -> str:
    """The name of `kept` pieces, or of more where one that follows is no number."""
    last = max((place for place, piece in enumerate(pieces[::2]) if not piece.isdecimal()), default=0)
    return "".join(pieces[: max(kept, 2 * last + 1)])


def _files(folder: Path) -> dict[str, str]:
    """The image files of a folder by their names without their ends."""
    if not folder.is_dir():
        raise UserError(f"{short(str(folder))}: no such folder; {_EXPECTED}")
    found: dict[str, str] = {}
    for file in sorted(folder.iterdir()):
        if file.name.lower().endswith(SUFFIXES) and file.name[0] != "." and file.is_file():
            name = stem(file.name)
            if name in found:
                both = f"{os.path.basename(found[name])} and {file.name}"
                raise UserError(f"{short(str(folder))}: {both} have the same name but for its end; keep one")
            found[name] = str(file)
    if not found:
        raise UserError(f"{short(str(folder))}: no images ({', '.join(SUFFIXES)}) in it; {_EXPECTED}")
    return found


def _cut(
    row: dict[str, str], size: tuple[int, int], coding: Coding, folder: Path, tile: int, new: int
) -> list[tuple[str, ...]]:
    """The rows of one micrograph's tiles, which are written where they are not there yet."""
    corners = [(y, x) for y in range(0, size[0] - tile + 1, tile) for x in range(0, size[1] - tile + 1, tile)]
    if not corners:
        high, wide = size
        raise UserError(
            f"{short(row['path'])}: {wide} × {high} pixels, smaller than a tile; choose --tile {min(size)} or less"
        )
    contents = [_contents(row[column]) for column in ("path", "mask")]
    digest = hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in contents)).hexdigest()
    settings = [_VERSION, digest, coding.boundary, coding.low, coding.high, tile, *([new] if new else [])]
    keys = [[_key(*settings, *corner, kind) for kind in ("image", "mask")] for corner in corners]
    if any(cache.look_up(folder, key) is None for pair in keys for key in pair):
        for pair, images in zip(keys, _pieces(row, contents, coding, corners, tile)):
            for key, image in zip(pair, _resized(*images, new) if new else images):
                cache.store(folder, key, ".png", made.encode(image) if image.ndim == 3 else _encode_grey(image))
    paths = [[str(cache.look_up(folder, key)) for key in pair] for pair in keys]
    names = [row["name"] + (f"+{y // tile}+{x // tile}" if len(corners) > 1 else "") for y, x in corners]
    return [
        (image, LABEL, row["client"], row.get("split", SPLITS[0]), mask, row["subject"], name)
        for (image, mask), name in zip(paths, names)
    ]


def _pieces(
    row: dict[str, str], contents: list[bytes], coding: Coding, corners: list[tuple[int, int]], tile: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The image and the mask of each tile."""
    try:
        image = made.decode(contents[0])
    except Rejected as rejected:
        raise UserError(f"{short(row['path'])}: {rejected}; save the image again or remove it and its label") from None
    mask = coding.mask(read_label(row["mask"], contents[1]))
    if image.shape[:2] != mask.shape:
        sizes = [f"{shape[1]} × {shape[0]}" for shape in (image.shape, mask.shape)]
        raise UserError(
            f"{short(row['path'])}: {sizes[0]} pixels, but its label {short(row['mask'])} has {sizes[1]}; "
            "bring both to one size"
        )
    if (image == image[..., :1]).all():
        image = image[..., 0]
    for y, x in corners:
        yield image[y : y + tile, x : x + tile], mask[y : y + tile, x : x + tile]


def _resized(image: np.ndarray, mask: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Both of `size` pixels; a pixel is boundary where that much of it is: lines must not break when they get thin."""
    image, share = (cv2.resize(each, (size, size), interpolation=cv2.INTER_AREA) for each in (image, mask))
    return image, np.where(share >= _ENOUGH * BOUNDARY, BOUNDARY, GRAIN).astype(np.uint8)


def _contents(path: str) -> bytes:
    try:
        return cache.read(path)
    except Rejected as rejected:
        raise UserError(f"{short(path)}: {rejected}; check its permissions") from None


def _key(*settings: object) -> str:
    return hashlib.sha256(cache.prefix_of("micrograph tile", *settings)).hexdigest()


def _encode_grey(image: np.ndarray) -> bytes:
    return cv2.imencode(".png", image)[1].tobytes()
