"""Where the images come from: the OAI folder, a manifest or the stand-in, prepared by `preprocessing.knee`.

Across sites they are the server's own; the clients' are at the sites, which have prepared theirs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from preprocessing.knee import KneeRejected, KneeSettings, preprocess_bytes
from tffapps.data import knees, manifest, oai, published, standin
from tffapps.data.cache import Rejected, cached_images
from tffapps.engine import addresses
from tffapps.errors import UserError
from tffapps.files import short
from tffapps.plfl import Settings, ownership
from tffapps.results import write_table

CACHE = pathlib.Path("data") / "cache"
SPLITTERS = {"csfl": oai.csfl_split, "plfl": oai.gold_split, "fssfl": oai.fssfl_split}


@dataclasses.dataclass(frozen=True)
class Pool:
    """All images: before they are divided among server and clients, or as the data divides them."""

    name: str  # for the tables
    table: pd.DataFrame  # path (of the preprocessed image), source (of the original), label, subject
    classes: list[str]
    key: str  # changes with any image, label or subject
    formats: tuple[str, ...] = ()  # of the images
    given: bool = False  # whether client and split of the table are to be kept

    def split(self, kind: str, seed: int) -> pd.DataFrame:
        return ownership.split(self.table, kind, seed) if self.given else SPLITTERS[kind](self.table, seed)

    @property
    def clients(self) -> tuple[str, ...]:
        return ownership.clients(self.table) if self.given else oai.CLIENTS

    def codes(self, table: pd.DataFrame) -> np.ndarray:
        return np.array([self.classes.index(label) for label in table.label], np.int32)


def load(values: dict[str, Any], settings: Settings, results: pathlib.Path) -> Pool:
    """All images, or where the clients are at sites, those of the server: `with_sites` adds the others."""
    from tffapps.data.images import formats_of  # imports TensorFlow

    across = bool(addresses(values["engine"]))
    name, table = _read(values, settings)
    if across:
        table = _of_server(table, values["data"])
    given = across or ownership.is_given(table)
    if given:
        manifest.check(table)
    wanted = oai.classes(table)
    usable, rejects = _prepared(table, settings)
    rejects = {short(path): why for path, why in rejects.items()}
    write_table(results / "rejected.csv", pd.DataFrame(sorted(rejects.items()), columns=["path", "reason"]))
    example = "; ".join(f"{path}: {why}" for path, why in sorted(rejects.items())[:1])
    if rejects:
        where = results / "rejected.csv"
        print(f"{len(rejects)} of {len(table)} images are not used, listed in {where}; {example}", file=sys.stderr)
    missing = [label for label in wanted if label not in set(usable.label)]
    if missing:
        raise UserError(f"--data: no usable image of {', '.join(missing)} is left ({example or 'there were none'})")
    if len(wanted) < 2:
        raise UserError(f"--data: only one class ({wanted[0]}); a classifier needs two or more")
    if given:
        ownership.check(usable, wanted, values["methods"], f"--data {values['data']}")
    if given and not across:
        names = ", ".join(ownership.clients(usable))
        print(
            f"as the manifest says, the clients are {names}; without its column client they are drawn", file=sys.stderr
        )
    content = manifest.fingerprint(usable) + "\0" + "\0".join(usable.subject)
    key = hashlib.sha256((content + "\0given" * given).encode()).hexdigest()[:16]
    return Pool(name, usable, wanted, key, formats_of(usable.path), given)


def with_sites(server: Pool, values: dict[str, Any], settings: Settings, sites: Mapping[str, Any]) -> Pool:
    """The server's images and those of the sites, whose paths mean nothing here."""
    from tffapps.data.images import FORMATS

    rows = ownership.of_sites(sites, server.classes)
    table = pd.concat([server.table, rows.assign(source="", subject="")], ignore_index=True)
    ownership.check(table, server.classes, values["methods"], "--engine")
    if settings.preprocess != "none":
        print(
            "images at sites are used as they are: each site prepares its own before, with"
            f" python -m preprocessing.knee IMAGES PREPARED --contrast {settings.contrast}",
            file=sys.stderr,
        )
    both = published.together(sites, published.Together(server.name, server.key, server.formats), FORMATS)
    return dataclasses.replace(server, **both._asdict(), table=table)


def _of_server(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows that are the server's: those of its name, or all if there is one client."""
    if oai.SERVER in set(table.client):
        table = table[table.client == oai.SERVER]
    elif table.client.nunique() > 1:
        names = ", ".join(sorted(set(table.client), key=manifest.natural_key))
        raise UserError(
            f"--data {source}: has the clients {names}; across sites it is the server's images, of the client"
            f" {oai.SERVER} or of none"
        )
    return table.assign(client=oai.SERVER).reset_index(drop=True)


def _read(values: dict[str, Any], settings: Settings) -> tuple[str, pd.DataFrame]:
    """The name of the data for the tables, and what there is."""
    if not values["data"]:
        source = pathlib.Path("data") / f"knees-{settings.size}-{settings.standin_images}"
        knees.write_knees(source, images=settings.standin_images, size=settings.size)
        return "stand-in", oai.read_oai(source)
    source = pathlib.Path(values["data"])
    if source.suffix.lower() != ".csv":
        return "stand-in" if standin.is_standin(source) else source.resolve().name, oai.read_oai(source)
    table = manifest.load(source)
    if not ownership.is_given(table):
        manifest.check(table.assign(client=manifest.ONLY_CLIENT, split="train"))  # both are decided anew
    if "subject" not in table.columns:
        print(f"{source}: no column subject, so every image is taken for a subject of its own", file=sys.stderr)
        table["subject"] = ""
    nameless = table.subject == ""
    table.loc[nameless, "subject"] = table.path[nameless]
    return source.stem, table


def _prepared(table: pd.DataFrame, settings: Settings) -> tuple[pd.DataFrame, dict[str, str]]:
    """The usable images, their paths those of the preprocessed ones, and why the others are not usable."""
    table = table.assign(source=table.path)
    if settings.preprocess == "none":
        from tffapps.data.unreadable import drop_unreadable  # imports TensorFlow, which the cache's processes can spare

        kept, dropped = drop_unreadable(table, settings.channels)
        return kept, dict(zip(dropped.path, dropped.reason))
    parameters = dataclasses.asdict(KneeSettings(contrast=settings.contrast))
    paths, rejects = cached_images(list(table.path), knee_image, parameters, CACHE / "knees")
    made = [path is not None for path in paths]
    prepared = [os.path.abspath(path) for path in paths if path is not None]
    return table[made].assign(path=prepared).reset_index(drop=True), rejects


def knee_image(contents: bytes, **parameters: Any) -> bytes:
    """`preprocess_bytes` as the cache wants it."""
    try:
        return preprocess_bytes(contents, **parameters)
    except KneeRejected as rejected:
        raise Rejected(str(rejected)) from None
