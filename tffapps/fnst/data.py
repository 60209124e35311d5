"""Where the patches come from: Chaoyang's files, its classes as folders, sites of one's own, or the stand-in.

Chaoyang has no sites: `imbalanced` shares it out as the paper does, anew for every number of rare images and every
seed. Data that names its own clients keeps them, and --rare has no meaning; across sites, each site is a client.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pandas as pd

from tffapps.data import chaoyang, glands, held_out, manifest, published, standin
from tffapps.errors import UserError
from tffapps.fnst import Augmentation

CACHE = pathlib.Path("data") / "cache"
AS_GIVEN = 0  # the number of rare images where sites are given, not made


@dataclasses.dataclass(frozen=True)
class Sites:
    """The training images of every client, and the test images of all."""

    rare: int  # images of every other class at a client
    train: pd.DataFrame  # path, label, client; place too where they are at sites
    test: pd.DataFrame

    @property
    def clients(self) -> list[str]:
        return sorted(set(self.train.client), key=manifest.natural_key)

    def of(self, client: str, label: str | None = None) -> pd.DataFrame:
        rows = self.train[self.train.client == client]
        return rows if label is None else rows[rows.label == label]


@dataclasses.dataclass(frozen=True)
class Pool:
    name: str  # for the tables
    table: pd.DataFrame  # path, label, client, split; place too where they are at sites
    classes: list[str]
    key: str  # changes with any image, label or client
    has_sites: bool  # its clients are its own
    formats: tuple[str, ...] = ()  # of the images

    def codes(self, table: pd.DataFrame) -> np.ndarray:
        return np.array([self.classes.index(label) for label in table.label], np.int32)

    def sites(self, rare: int, seed: int) -> Sites:
        table = self.table if self.has_sites else chaoyang.imbalanced(self.table, rare, seed)
        train, test = (table[table.split == split] for split in ("train", "test"))
        return Sites(AS_GIVEN if self.has_sites else rare, train, test)

    def rare_of(self, augmentation: Augmentation) -> int:
        """The setting that an augmentation belongs to: its contents are all the rare images there are."""
        return AS_GIVEN if self.has_sites else augmentation.contents


def load(values: dict[str, Any], results: pathlib.Path) -> Pool:
    from tffapps.data.images import formats_of  # imports TensorFlow
    from tffapps.data.unreadable import leave_out

    name, table, has_sites = _read(values)
    manifest.check(table)
    given, table = len(table), leave_out(table, results / "rejected.csv", "patches")
    if len(table) < given:
        manifest.check(table)
    _check_splits(table, "--data")
    classes = list(chaoyang.CLASSES) if not has_sites else manifest.classes(table)
    manifest.check_classes(table, "--data")
    clients = table.client[table.split == "train"].nunique()
    if has_sites and clients < 2:
        raise UserError(
            "--data: only one client; styles travel between sites: give a manifest with a column client, "
            f"or {{train,test}}/<class>/* with the classes {', '.join(chaoyang.CLASSES)}, which are shared out"
        )
    key, formats = manifest.fingerprint(table), formats_of(table.path)
    return Pool(name, table.reset_index(drop=True), classes, key, has_sites, formats)


def of_sites(sites: published.Sites) -> Pool:
    """What the sites have published. Paths mean something there alone; `place` is a row's among all of its site's."""
    from tffapps.data.images import FORMATS  # imports TensorFlow

    if len(sites) < 2:
        raise UserError("--engine: only one site; styles travel between sites: give two or more")
    table = published.manifest(sites)
    table = table.assign(place=table.groupby("client", sort=False).cumcount())
    table = published.with_test(sites, table)
    _check_splits(table, "--engine")
    key, formats = published.fingerprint(sites), published.formats(sites, FORMATS)
    return Pool(published.name(sites), table, manifest.classes(table), key, True, formats)


def _check_splits(table: pd.DataFrame, flag: str) -> None:
    for split in ("train", "test"):
        if not (table.split == split).any():
            raise UserError(f"{flag}: no patch is left to {split} with")


def _read(values: dict[str, Any]) -> tuple[str, pd.DataFrame, bool]:
    """The name, the table, and whether its clients are its own."""
    if not values["data"]:
        train, test, size = (values[f"standin_{name}"] for name in ("train", "test", "size"))
        source = pathlib.Path("data") / f"glands-{size}-{train}-{test}"
        glands.write_glands(source, train=train, test=test, size=size)
        return "stand-in", chaoyang.read(source), False
    source = pathlib.Path(values["data"])
    if not source.is_dir():
        table = manifest.load(source)
        return source.stem, held_out.with_test(table, source), True
    name = "stand-in" if standin.is_standin(source) else source.resolve().name
    if (source / "train.json").is_file() or (source / "test.json").is_file():
        return name, chaoyang.read(source), False
    if all((source / "train" / label).is_dir() for label in chaoyang.CLASSES):
        return name, chaoyang.from_class_folders(source), False
    return name, held_out.with_test(manifest.load(source), source), True
