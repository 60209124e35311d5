"""Where the pictures come from, and the federations that are made of them.

Across sites they are the public ones, the server's; `sites` adds the others, which are at the sites.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

import numpy as np
import pandas as pd

from tffapps.data import artists, manifest, painters, standin
from tffapps.engine import addresses
from tffapps.errors import UserError

CACHE = pathlib.Path("data") / "cache"
SINGLE = "single"  # one artist, one client
GIVEN = "given"  # the clients that a manifest names, or sites


@dataclasses.dataclass(frozen=True)
class Federation:
    """Who trains on what. Classes are the artists, in natural order."""

    name: str
    table: pd.DataFrame  # path, label, client, split (train, public or test)
    at_sites: bool = False  # all but the public pictures

    @property
    def classes(self) -> list[str]:
        return manifest.classes(self.table)

    @property
    def clients(self) -> list[str]:
        return sorted(set(self.part("train").client), key=manifest.natural_key)

    @property
    def dealt(self) -> str:
        """How tables call the comparison's federation among others."""
        return {SINGLE: "one artist each", GIVEN: "as given"}.get(self.name, self.name)

    def part(self, split: str) -> pd.DataFrame:
        return self.table[self.table.split == split]

    @property
    def shown(self) -> pd.DataFrame:
        """Pictures for a figure: they have to be here."""
        return self.part("public" if self.at_sites else "train")

    def codes(self, rows: pd.DataFrame) -> np.ndarray:
        places = {label: place for place, label in enumerate(self.classes)}
        return np.array([places[label] for label in rows.label], np.int32)


@dataclasses.dataclass(frozen=True)
class Pool:
    """All artists."""

    name: str  # for the tables
    table: pd.DataFrame
    key: str  # changes with any picture
    formats: tuple[str, ...]  # of the pictures
    given: bool = False  # whether clients are as the data names them, and not one for each artist
    at_sites: bool = False  # all but the public pictures

    def federation(self, count: int) -> Federation:
        """The first `count` artists, each a client if it is not said otherwise; 0: all."""
        table = artists.artists(self.table, count) if count else self.table
        return Federation(GIVEN if self.given else SINGLE, table, self.at_sites)

    def dealt(self, count: int, kind: str, alpha: float, seed: int) -> Federation:
        """The same pictures and as many clients, dealt out otherwise."""
        federation = self.federation(count)
        if kind == SINGLE:
            return federation
        table = artists.heterogeneous(federation.table, kind, len(federation.classes), alpha, seed)
        return Federation(f"{kind} {alpha:g}" if kind == "dirichlet" else kind, table)


def load(values: dict[str, Any], results: pathlib.Path) -> Pool:
    """All pictures, or across sites the public ones."""
    from tffapps.data.images import formats_of  # imports TensorFlow
    from tffapps.data.unreadable import leave_out

    across = bool(addresses(values["engine"]))
    name, source = _source(values)
    table, notes = artists.read_public(source) if across else artists.read(source)
    table = leave_out(table, results / "rejected.csv", "pictures")
    for note in dict.fromkeys([*notes, *([] if across else artists.few(table))]):
        print(note, file=sys.stderr)
    if not across:
        check(table, f"--data {source}")
    elif table.empty:
        raise UserError(f"--data {source}: none of the public pictures can be read")
    given = across or artists.is_manifest(source)
    return Pool(name, table, manifest.fingerprint(table), formats_of(table.path), given)


def check(table: pd.DataFrame, source: str) -> None:
    """Refuses what no method could run on; `source` is where the pictures are from."""
    if table.label[table.split == "train"].nunique() < 2:
        raise UserError(f"{source}: fewer than two artists have pictures to train with")
    if not (table.split == "test").any():
        raise UserError(f"{source}: no picture is left to test with; give artists two or more each")


def _source(values: dict[str, Any]) -> tuple[str, pathlib.Path]:
    """The name of the data for the tables, and where it is; the stand-in is painted."""
    if values["data"]:
        source = pathlib.Path(values["data"])
        name = source.stem if artists.is_manifest(source) else source.resolve().name
        return "stand-in" if standin.is_standin(source) else name, source
    count, pictures, size, close = (
        values[f"standin_{what}"] for what in ("artists", "pictures", "size", "close")
    )  # fmt: skip
    source = pathlib.Path("data") / f"painters-{size}-{count}x{pictures}-{close}"
    painters.write_painters(source, artists=count, images=pictures, size=size, close=close)
    return "stand-in", source
