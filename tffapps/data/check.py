"""What an application would find in a folder or a manifest, read by its own loader before a run.

No engine is started, and nothing is written but to a temporary folder. Divisions that a run draws from its seeds are
tried, because they fail where there are too few images. What takes long is left to the run: knees are not looked for,
stains not measured, micrographs not cut into tiles, only counted.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from tffapps.data import manifest as manifests
from tffapps.data.artists import SPLITS as SPLITS_OF_ARTISTS
from tffapps.errors import UserError
from tffapps.files import short

REJECTED = "rejected.csv"  # where loaders list what they leave out
_SPLITS = tuple(dict.fromkeys((*manifests.SPLITS, *SPLITS_OF_ARTISTS)))
_SHOWN = 3  # files, sizes
_MOST = 20  # classes, rows of clients


@dataclasses.dataclass(frozen=True)
class Found:
    """What there is: the rows that a run would use (path, client, split and, of classes, label)."""

    table: pd.DataFrame
    notes: tuple[str, ...] = ()
    noun: str = "images"  # what a row is
    unreadable: dict[str, str] = dataclasses.field(default_factory=dict)  # path -> reason


def look(name: str, values: dict[str, Any]) -> Found:
    """Reads `values["data"]` for an application; a UserError is what its run would end with."""
    with tempfile.TemporaryDirectory(prefix="tffapps-data-") as text, _unsaid(text):
        folder = Path(text)
        try:
            found = _LOOKS[name](values, folder)
        except UserError:
            for path, reason in list(_listed(folder).items())[:_SHOWN]:  # perhaps that is why
                print(f"cannot be read: {short(path)}: {reason}", file=sys.stderr)
            raise
        return dataclasses.replace(found, unreadable=_listed(folder))


def report(found: Found) -> str:
    """A few lines and a table: one row for each client, one column for each split."""
    table = found.table
    lines = [
        f"{found.noun}: {len(table)}",
        f"sizes: {_sizes(list(dict.fromkeys(table.path)))}",
        f"unreadable: {_first(found.unreadable)}",
    ]
    if "label" in table.columns:
        lines.insert(1, f"classes: {_classes(table)}")
    return "\n".join([*map(_printable, (*lines, *found.notes)), "", _by_client(table, found.noun)])


def _plfl(values: dict[str, Any], folder: Path) -> Found:
    from tffapps import plfl
    from tffapps.plfl import data
    from tffapps.plfl.frameworks import SPLITS

    settings = plfl.settings_of(values)
    pool = data.load(values, dataclasses.replace(settings, preprocess="none"), folder)
    for kind in dict.fromkeys(SPLITS[method] for method in values["methods"]):
        for seed in values["seeds"]:
            pool.split(kind, seed)
    notes = [] if pool.given else ["clients: the server and two others, drawn by every seed"]
    if settings.preprocess == "knee":
        notes.append("not looked at: whether there is a knee in every image; python -m preprocessing.knee does")
    return Found(pool.table, tuple(notes))


def _fnst(values: dict[str, Any], folder: Path) -> Found:
    from tffapps.data.chaoyang import CLIENTS
    from tffapps.fnst import data

    pool = data.load(values, folder)
    if pool.has_sites:
        return Found(pool.table)
    for rare in values["rare"]:
        for seed in values["seeds"]:
            pool.sites(rare, seed)
    amounts = ", ".join(map(str, values["rare"]))
    return Found(pool.table, (f"clients: {len(CLIENTS)}, drawn by every seed, with {amounts} images of a rare class",))


def _fedstyle(values: dict[str, Any], folder: Path) -> Found:
    from tffapps.fedstyle import data

    pool = data.load(values, folder)
    asked = [("artists", values["artists"])]
    if "scalability" in values["studies"]:
        asked += [("scalability", count) for count in values["scalability"]]
    for flag, count in asked:
        try:
            pool.federation(count)
        except UserError as error:
            raise UserError(f"--{flag}: {error}") from None
    return Found(pool.table, noun="pictures")


def _fedsda(values: dict[str, Any], folder: Path) -> Found:
    from tffapps.fedsda import data

    pool = data.load(values, folder)
    data.folds(pool, values["leave_out"])
    return Found(pool.table, noun="patches")


def _classify(values: dict[str, Any], folder: Path) -> Found:
    from tffapps import classify, classify_runs
    from tffapps.data.unreadable import find_unreadable
    from tffapps.results import write_table

    settings = classify.settings_of(values)
    _, table = classify_runs.load_data(values, settings)
    left_out = set(manifests.load(Path(values["data"])).path) - set(table.path)
    reasons = find_unreadable(sorted(left_out), settings.channels)
    write_table(folder / REJECTED, pd.DataFrame(reasons.items(), columns=["path", "reason"]))
    return Found(table)


def _fedtransfer(values: dict[str, Any], folder: Path) -> Found:
    """What `fedtransfer.data.load` does, but for the tiles, which are counted and not cut."""
    del folder  # a micrograph that cannot be read is refused, not left out
    from tffapps.data import micrographs
    from tffapps.data.micrograph_labels import coding_of
    from tffapps.fedtransfer import GLOBAL

    source, tile = Path(values["data"]), values["tile"]
    table = micrographs.read(source)
    clients = list(dict.fromkeys(table.client))
    if len(clients) < 2:
        raise UserError(f"--data {source}: only one client, {clients[0]}; generators travel between two or more")
    if GLOBAL in clients:
        raise UserError(f"--data {source}: a client called {GLOBAL}, as tables call all test tiles; rename it")
    parts, notes, sides = [], [], set()
    for client, part in table.groupby("client", sort=False):
        coding, sizes = coding_of(str(client), list(part["mask"]), progress=True)
        notes.append(f"labels of {client}: boundaries are {coding.boundary}, {100 * coding.share:.0f} % of the pixels")
        own = [tile or min(size) for size in sizes]
        counts = [_tiles(*each) for each in zip(part.path, part["mask"], sizes, own)]
        parts.append(part.loc[part.index.repeat(counts)])
        sides.update(own)
    if len(sides) > 1 and not values["size"]:
        few, many = min(sides), max(sides)
        raise UserError(f"--tile 0: tiles of {few} to {many} pixels on a side; bring them to one size with --size")
    cut = " or ".join(map(str, sorted(sides)[:_SHOWN]))
    notes.append(f"files: {len(table)}, of {table.subject.nunique()} micrographs; a tile is {cut} pixels wide")
    tiles = pd.concat(parts, ignore_index=True)
    tiles = micrographs.thinned(tiles if "split" in tiles else tiles.assign(split=manifests.SPLITS[0]), values["tiles"])
    if not (tiles.split != manifests.SPLITS[0]).any():
        tiles = micrographs.divide(tiles)
    if values["folds"] > 1:
        tiles = micrographs.folds(tiles, values["folds"])[0]
    return Found(tiles[["path", "client", "split"]], tuple(notes), "tiles")


def _tiles(path: str, label: str, size: tuple[int, int], tile: int) -> int:
    """How many tiles a micrograph has; `size` is its label's."""
    from tffapps.data import cache, made

    try:
        high, wide = made.decode(cache.read(path)).shape[:2]
    except cache.Rejected as rejected:
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


_LOOKS: dict[str, Callable[[dict[str, Any], Path], Found]] = {
    "classify": _classify,
    "plfl": _plfl,
    "fedsda": _fedsda,
    "fnst": _fnst,
    "fedstyle": _fedstyle,
    "fedtransfer": _fedtransfer,
}


@contextlib.contextmanager
def _unsaid(folder: str) -> Iterator[None]:
    """Loaders say on stderr where they listed what cannot be read; of a folder that goes away they should not."""
    stream: Any = _Without(folder, sys.stderr)
    with contextlib.redirect_stderr(stream):
        yield


class _Without:
    """A stream without the lines that name a folder, each printed at once."""

    def __init__(self, folder: str, stream: TextIO) -> None:
        self._folder, self._stream, self._dropped = folder, stream, False

    def write(self, text: str) -> int:
        ends_dropped = self._dropped and text == "\n"
        self._dropped = self._folder in text
        return len(text) if ends_dropped or self._dropped else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _listed(folder: Path) -> dict[str, str]:
    if not (folder / REJECTED).is_file():
        return {}
    table = pd.read_csv(folder / REJECTED, dtype=str, keep_default_na=False)
    return dict(zip(table.path, table.reason))


def _first(reasons: dict[str, str]) -> str:
    shown = [f"{short(path)}: {reason}" for path, reason in list(reasons.items())[:_SHOWN]]
    more = [f"and {len(reasons) - _SHOWN} more"] if len(reasons) > _SHOWN else []
    return f"{len(reasons)} left out; {'; '.join([*shown, *more])}" if reasons else "none"


def _sizes(paths: Sequence[str]) -> str:
    """Width × height, the commonest first."""
    counts = collections.Counter(map(_size, paths))
    if len(counts) == 1:
        return next(iter(counts))
    shown = [f"{size} ({count})" for size, count in counts.most_common(_SHOWN)]
    return ", ".join(shown) + (f" and {len(counts) - _SHOWN} others" if len(counts) > _SHOWN else "")


def _size(path: str) -> str:
    """From the first bytes of the file."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return f"{image.width}×{image.height}"
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError):
        return "unknown"  # to Pillow: TensorFlow and OpenCV, which the applications read with, know more formats


def _classes(table: pd.DataFrame) -> str:
    counts = table.label.value_counts()
    names = manifests.classes(table)
    if len(names) > _MOST:
        return f"{len(names)}, of {counts.min()} to {counts.max()} images"
    return ", ".join(f"{name} ({counts[name]})" for name in names)


def _by_client(table: pd.DataFrame, noun: str) -> str:
    counts = pd.crosstab(table.client, table.split)
    counts = counts.reindex(columns=[split for split in _SPLITS if split in counts.columns])
    counts = counts.loc[sorted(counts.index, key=manifests.natural_key)]
    counts[noun] = counts.sum(axis=1)
    if "label" in table.columns:
        counts["classes"] = table.groupby("client").label.nunique()
    rows = counts.head(_MOST).reset_index()
    text = rows.to_string(index=False, formatters={"client": _printable})
    left = len(counts) - _MOST
    return f"{text}\n… and {left} more clients" if left > 0 else text


def _printable(text: str) -> str:
    """Names come from folders and tables: as in a UserError, what would steer a terminal is shown as escapes."""
    return str(UserError(text))
