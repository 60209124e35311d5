"""Where the pictures come from, and the federations that are made of them."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

import numpy as np
import pandas as pd

from tffapps.data import artists, manifest, painters, standin
from tffapps.errors import UserError

CACHE = pathlib.Path("data") / "cache"
SINGLE = "single"  # one artist, one client


@dataclasses.dataclass(frozen=True)
class Federation:
    """Who trains on what. Classes are the artists, in natural order."""

    name: str
    table: pd.DataFrame  # path, label, client, split (train, public or test)

    @property
    def classes(self) -> list[str]:
        return manifest.classes(self.table)

    @property
    def clients(self) -> list[str]:
        return sorted(set(self.part("train").client), key=manifest.natural_key)

    def part(self, split: str) -> pd.DataFrame:
        return self.table[self.table.split == split]

    def codes(self, rows: pd.DataFrame) -> np.ndarray:
        places = {label: place for place, label in enumerate(self.classes)}
        return np.array([places[label] for label in rows.label], np.int32)


@dataclasses.dataclass(frozen=True)
class Pool:
    """All artists."""

    name: str  # for the tables
    table: pd.DataFrame
    key: str  # changes with any picture

    def federation(self, count: int) -> Federation:
        """The first `count` artists, each a client; 0: all."""
        table = artists.artists(self.table, count) if count else self.table
        return Federation(SINGLE, table)

    def dealt(self, count: int, kind: str, alpha: float, seed: int) -> Federation:
        """The same pictures and as many clients, dealt out otherwise."""
        federation = self.federation(count)
        if kind == SINGLE:
            return federation
        table = artists.heterogeneous(federation.table, kind, len(federation.classes), alpha, seed)
        return Federation(f"{kind} {alpha:g}" if kind == "dirichlet" else kind, table)


def load(values: dict[str, Any], results: pathlib.Path) -> Pool:
    from tffapps.data.unreadable import leave_out  # imports TensorFlow

    if values["data"]:
        source = pathlib.Path(values["data"])
        name = "stand-in" if standin.is_standin(source) else source.resolve().name
    else:
        name = "stand-in"
        count, pictures, size, close = (
            values[f"standin_{what}"] for what in ("artists", "pictures", "size", "close")
        )  # fmt: skip
        source = pathlib.Path("data") / f"painters-{size}-{count}x{pictures}-{close}"
        painters.write_painters(source, artists=count, images=pictures, size=size, close=close)
    table, notes = artists.read(source)
    table = leave_out(table, results / "rejected.csv", "pictures")
    for note in dict.fromkeys([*notes, *artists.few(table)]):
        print(note, file=sys.stderr)
    if not (table.split == "train").any() or table.label[table.split == "train"].nunique() < 2:
        raise UserError(f"--data {source}: fewer than two artists have pictures to train with")
    if not (table.split == "test").any():
        raise UserError(f"--data {source}: no picture is left to test with; give artists two or more each")
    return Pool(name, table, manifest.fingerprint(table))
