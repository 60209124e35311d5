"""Before the federation: clients train generators, the server passes them on, clients paint their labels with them.

    client                              server                      every other client
    images, labels ── pix2pix ── generator ──► checks, passes on ──► checks ── with its own labels ── paints
                                                                      └► (image, own label), kept on disk

No image and no label leaves a client, real or painted. Generators are files, here as between sites.
"""

import dataclasses
import hashlib

import pandas as pd

from tffapps import stream
from tffapps.fedtransfer.data import Tiles
from tffapps.fedtransfer.dispatch import Delivery, dispatch
from tffapps.fedtransfer.placement import Placement


@dataclasses.dataclass(frozen=True)
class Made:
    """The images that the clients painted for themselves, in one seed and fold."""

    precision: str
    seed: int
    fold: int
    table: pd.DataFrame  # path, mask, client, sender, name
    deliveries: list[Delivery]
    key: str  # changes with any of the images


def exchange(placement: Placement, tiles: Tiles, precision: str, seed: int) -> Made:
    """What every client adds to its training images; `precision` is what generators are sent as."""
    seeds = {client: stream(seed, 0, position) for position, client in enumerate(tiles.clients)}
    folder = placement.hand_in(tiles, precision, seeds)
    deliveries = dispatch(folder, tiles.clients, placement.painter.architecture(tiles.size), precision)
    table = pd.concat(placement.painted(tiles, deliveries, precision), ignore_index=True)
    painted = "\n".join(table["name"])  # hashes of all that each depends on
    key = hashlib.sha256(painted.encode()).hexdigest()[:16]
    return Made(precision, seed, tiles.fold, table, deliveries, key)
