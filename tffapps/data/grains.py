"""A stand-in for the micrographs of FedTransfer: two materials in the layout that `micrographs.read` reads.

    <folder>/<client>/images/m003_1.png     the second tile of the micrograph m003
    <folder>/<client>/labels/m003_1.png     its boundaries: dark on light for austenite, light on dark for iron

The tiles of a micrograph show different grains, but under the same magnification, etch and lamp.
"""

import itertools
from pathlib import Path

import numpy as np

from tffapps.data import grains_drawing as drawing
from tffapps.data.grains_drawing import AUSTENITE, MATERIALS, SIZE
from tffapps.data.standin import Item, write
from tffapps.errors import UserError

CLIENTS = MATERIALS
TILES = 2  # of one micrograph
_FEWEST = {"images": 3 * TILES, "size": 64}


def write_grains(folder: Path, *, images: int = 120, size: int = SIZE, seed: int = 0, progress: bool = True) -> Path:
    """Draws that many tiles of each material; returns the folder."""
    for name, value in (("images", images), ("size", size)):
        if value < _FEWEST[name]:
            raise UserError(f"grains: {name} {value} is too small; give at least {_FEWEST[name]}")
    items = []
    for stream, (client, number) in enumerate(itertools.product(CLIENTS, range(images))):
        fields = {"client": client, "micrograph": number // TILES, "size": size, "seed": seed}
        name = f"m{number // TILES:03d}_{number % TILES}.png"
        items += [Item(f"{client}/{kind}/{name}", {**fields, "kind": kind}, stream) for kind in ("images", "labels")]
    parameters = {"images": images, "size": size, "tiles": TILES}
    return write(folder, items, _draw, seed, "grains", parameters=parameters, progress=progress)


def _draw(rng: np.random.Generator, item: Item) -> np.ndarray:
    fields = item.fields
    client = CLIENTS.index(fields["client"])
    # Four numbers: never an item's two.
    look = drawing.look(np.random.default_rng([fields["seed"], client, fields["micrograph"], 5]), fields["client"])
    found = drawing.structure(rng, fields["size"], look.across)
    if fields["kind"] == "images":
        return drawing.micrograph(rng, look, found)
    boundary = found.grains == 0
    return np.where(boundary == (fields["client"] == AUSTENITE), 0, 255).astype(np.uint8)
