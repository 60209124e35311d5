"""Before the federation: clients train generators, the server passes them on, clients paint their labels with them.

    client                              server                      every other client
    images, labels ── pix2pix ── generator ──► checks, passes on ──► checks ── with its own labels ── paints
                                                                      └► (image, own label), kept on disk

No image and no label leaves a client, real or painted. Generators are files, here as between sites.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping
from typing import Any

import pandas as pd

from tffapps.federated.cohort import stream
from tffapps.fedtransfer import GeneratorFlags
from tffapps.fedtransfer.data import CACHE, Pool
from tffapps.fedtransfer.dispatch import Delivery, dispatch
from tffapps.fedtransfer.painter import FILE, Painter, send
from tffapps.fedtransfer.sites import Sites
from tffapps.files import as_name, from_name
from tffapps.runs import key_of
from tffapps.settings import pick


@dataclasses.dataclass(frozen=True)
class Made:
    """The images that the clients painted for themselves."""

    table: pd.DataFrame  # path, mask, client, sender, name
    deliveries: list[Delivery]
    key: str  # changes with any of the images


class Exchange:
    """Between the clients of this process, or between sites."""

    def __init__(self, values: dict[str, Any], sites: Sites | None = None) -> None:
        self.painter = Painter(pick(GeneratorFlags, values), values["channels"], values["fresh"])
        self._sites = sites

    def make(self, pool: Pool, precision: str, seed: int) -> Made:
        """What every client adds to its training images."""
        seeds = {client: stream(seed, 0, place) for place, client in enumerate(pool.clients)}
        folder = (self._sites or self).hand_in(pool, precision, seeds)
        names = [as_name(client) for client in pool.clients]
        deliveries = dispatch(folder, names, self.painter.architecture(pool.size), precision)
        table = pd.concat((self._sites or self).painted(pool, deliveries, precision), ignore_index=True)
        painted = "\n".join(table["name"])  # hashes of all that each depends on
        return Made(table, deliveries, hashlib.sha256(painted.encode()).hexdigest()[:16])

    def hand_in(self, pool: Pool, precision: str, seeds: Mapping[str, int]) -> pathlib.Path:
        """The folder with what the clients have handed in."""
        trained = {
            client: self.painter.trained(client, pool.of("train", client), seed) for client, seed in seeds.items()
        }
        chosen = {client: str(folder) for client, folder in trained.items()}
        folder = CACHE / "generators" / "exchanges" / key_of({"generators": chosen, "precision": precision})
        for client, source in trained.items():
            send(source / FILE, folder / "sent" / f"{as_name(client)}.npz", precision)
        return folder

    def painted(self, pool: Pool, deliveries: list[Delivery], precision: str) -> list[pd.DataFrame]:
        """Of each delivery what the receiver painted: path, mask, client, sender, name."""
        tables = []
        for each in deliveries:
            sender, receiver = (from_name(name) for name in (each.sender, each.receiver))
            rows, architecture = pool.of("train", receiver), self.painter.architecture(pool.size)
            paths = self.painter.paint(rows, each.file, architecture, precision, f"{receiver} as {sender}")
            columns = {"path": paths, "mask": list(rows["mask"]), "client": receiver, "sender": sender}
            tables.append(pd.DataFrame({**columns, "name": [pathlib.Path(path).name for path in paths]}))
        return tables
