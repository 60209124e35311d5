"""A stand-in for collections of paintings: drawn pictures in the layout that `artists.read` reads.

    <folder>/painter01/0000.png, …       all painters have equally many
    <folder>/truth.csv                   path, artist and kind (what is in the picture)

All paint the same kinds of scenes equally often; palette, strokes, edges and canvas are a painter's own. So the style
tells the painter, and the content does not. A painter's pictures are the same whoever else there is.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from tffapps.data import painters_drawing
from tffapps.data.painters_scenes import KINDS
from tffapps.data.standin import Item, write
from tffapps.errors import UserError
from tffapps.files import replacing

SIZE = 64
TRUTH = "truth.csv"
_SIZES = (32, 512)


def write_painters(
    folder: Path,
    *,
    artists: int = 18,
    images: int = 60,
    size: int = SIZE,
    close: int = 0,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Paints that many pictures of each painter; returns the folder.

    The first `close` pairs of painters (1 and 2, 3 and 4, …) have all in common but the direction of their strokes.
    """
    for name, value, least in (("artists", artists, 2), ("images", images, 1)):
        if value < least:
            raise UserError(f"painters: {name} {value} is too small; give at least {least}")
    if not _SIZES[0] <= size <= _SIZES[1]:
        raise UserError(f"painters: size {size} cannot be painted; give {_SIZES[0]} to {_SIZES[1]} pixels")
    if not 0 <= close <= artists // 2:
        raise UserError(
            f"painters: close {close} is no number of pairs; of {artists} painters there are {artists // 2}"
        )
    truth = pd.concat([_plan(number, images, seed) for number in range(artists)], ignore_index=True)
    items = [
        Item(path, {"number": row // images, "kind": kind, "size": size, "close": close, "seed": seed})
        for row, (path, kind) in enumerate(zip(truth.path, truth.kind))
    ]
    parameters = {"artists": artists, "images": images, "size": size, "close": close}
    folder = write(folder, items, _draw, seed, "painters", parameters=parameters, progress=progress)
    file, text = folder / TRUTH, truth.to_csv(index=False)
    if not file.is_file() or file.read_text() != text:
        with replacing(file) as stream:
            stream.write(text)
    return folder


def true_kinds(root: Path) -> pd.DataFrame:
    """The artist and the kind of scene of every picture of a stand-in, by absolute path."""
    root = Path(os.path.abspath(root))
    if not (root / TRUTH).is_file():
        raise UserError(f"{root / TRUTH}: no such file; only drawn paintings have known scenes, see write_painters")
    table = pd.read_csv(root / TRUTH)
    table["path"] = [str(root / path) for path in table["path"]]
    return table.set_index("path")


def _plan(number: int, images: int, seed: int) -> pd.DataFrame:
    """path, artist and kind of one painter's pictures: all kinds equally often, in random order."""
    rng = np.random.default_rng([seed, number, 3])  # three numbers: never an item's two
    kinds = rng.permutation(np.array(KINDS)[(rng.permutation(len(KINDS))[np.arange(images) % len(KINDS)])])
    artist = f"painter{number + 1:02d}"
    paths = [f"{artist}/{image:04d}.png" for image in range(images)]
    return pd.DataFrame({"path": paths, "artist": artist, "kind": kinds})


def _draw(rng: np.random.Generator, item: Item) -> np.ndarray:
    fields = item.fields
    hand = painters_drawing.style(fields["seed"], fields["number"], fields["close"])
    return painters_drawing.paint(rng, fields["kind"], hand, fields["size"])
