"""Where the patches come from: a WILDS folder, folders of patches, a manifest, or the stand-in."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pandas as pd

from tffapps.data import held_out, manifest, published, standin, tissue, wilds
from tffapps.errors import UserError

CACHE = pathlib.Path("data") / "cache"
_MADE = "png"  # the format of images that are made
PLACE = "place"  # the column that says which of its site's rows a row is
FEDERATION = "federation"  # the test images of all centres; other folds are named after the centre left out


@dataclasses.dataclass(frozen=True)
class Pool:
    """All patches; the clients and the split are decided."""

    name: str  # for the tables
    table: pd.DataFrame  # path, label, client, split; of patches at sites also PLACE
    classes: list[str]
    key: str  # changes with any patch, label, client or split
    truth: pd.DataFrame | None  # the true stains by path, of a stand-in
    formats: tuple[str, ...]  # of the patches, and of those that are made

    def codes(self, table: pd.DataFrame) -> np.ndarray:
        return np.array([self.classes.index(label) for label in table.label], np.int32)


@dataclasses.dataclass(frozen=True)
class Fold:
    """What one federation trains and is tested on."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame

    @property
    def clients(self) -> list[str]:
        return sorted(set(self.train.client), key=manifest.natural_key)


def folds(pool: Pool, leave_out: bool) -> list[Fold]:
    """The whole federation and, if asked for, for each centre the federation of the others, tested on all of it."""
    train, test = (pool.table[pool.table.split == split] for split in ("train", "test"))
    made = [Fold(FEDERATION, train, test)]
    if leave_out:
        clients = made[0].clients
        if len(clients) < 2:
            raise UserError("--leave-out: there is only one centre, and none would be left to train on")
        if FEDERATION in clients:
            raise UserError(f"--leave-out: a centre cannot be called {FEDERATION}, which is all of them; rename it")
        made += [Fold(name, train[train.client != name], pool.table[pool.table.client == name]) for name in clients]
    return made


def load(values: dict[str, Any], results: pathlib.Path) -> Pool:
    from tffapps.data.images import FORMATS, formats_of  # both import TensorFlow
    from tffapps.data.unreadable import leave_out

    name, table, truth = _read(values)
    given, table = len(table), leave_out(table, results / "rejected.csv", "patches")
    if len(table) < given:
        manifest.check(table)
    manifest.check_classes(table, "--data")
    for split in ("train", "test"):
        if not (table.split == split).any():
            raise UserError(f"--data: no patch is left to {split} with")
    found = formats_of(table.path)
    formats = tuple(name for name in FORMATS if name in found or name == _MADE)
    return Pool(name, table, manifest.classes(table), manifest.fingerprint(table), truth, formats)


def of_sites(sites: published.Sites) -> Pool:
    """What the sites have published: paths mean something there only."""
    from tffapps.data.images import FORMATS  # imports TensorFlow

    table = published.manifest(sites)
    table[PLACE] = table.groupby("client").cumcount()
    table = published.with_test(sites, table)
    found = published.formats(sites, FORMATS)
    formats = tuple(name for name in FORMATS if name in found or name == _MADE)
    return Pool(
        published.name(sites), table, manifest.classes(table), published.fingerprint(sites), None, formats
    )  # fmt: skip


def _read(values: dict[str, Any]) -> tuple[str, pd.DataFrame, pd.DataFrame | None]:
    share = values["train_share"] or None
    if not values["data"]:
        patches, centres = values["standin_patches"], values["standin_centres"]
        source = pathlib.Path("data") / f"tissue-{centres}x{patches}"
        tissue.write_tissue(source, patches=patches, centres=centres)
    else:
        source = pathlib.Path(values["data"])
    if source.suffix.lower() == ".csv" or source.is_file():
        table = manifest.load(source)
        manifest.check(table)
        return source.stem, held_out.with_test(table, source), None
    table = wilds.read(source, train=share)
    drawn = (source / tissue.STAINS).is_file()
    name = "stand-in" if standin.is_standin(source) else source.resolve().name
    return name, table, tissue.true_stains(source) if drawn else None
