"""What a coordinator makes of what the sites have published: a manifest of all of them, with nobody's file names."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from tffapps.data import held_out
from tffapps.data import manifest as manifests
from tffapps.errors import UserError

STANDIN = "stand-in"
MASK = ".mask"  # after the path of an image: that of its mask
Sites = Mapping[str, Mapping[str, Any]]  # by name, as `Engine.sites` has them


def manifest(sites: Sites, notes: list[str] | None = None) -> pd.DataFrame:
    """The rows of all sites, clients called as the sites are. Paths are relative: each means something at its site."""
    by_name = sorted(sites.items(), key=lambda item: manifests.natural_key(item[0]))
    table = pd.concat([relative_manifest(description) for _, description in by_name], ignore_index=True)
    if "mask" in table.columns and table["mask"].isna().any():  # some site has none
        table = table.drop(columns="mask")
    manifests.check_classes(table, "--engine", notes)
    return table


def with_test(sites: Sites, table: pd.DataFrame, notes: list[str] | None = None) -> pd.DataFrame:
    """The manifest with a test split, drawn from the training images if no site has one."""
    subjects = [name for name, description in sites.items() if description["subjects"]]
    if subjects and not (table.split == "test").any():
        raise UserError(
            f"--engine: no test split at any site, and none can be drawn here that keeps the subjects of {subjects[0]}"
            " together; make one at the sites (split=test in their manifests)"
        )
    return held_out.with_test(table, "the sites' data", notes)


def name(sites: Sites) -> str:
    """How tables call the data."""
    made = any(description["stand_in"] for description in sites.values())
    return STANDIN if made else f"sites {', '.join(sites)}"


def formats(sites: Sites, known: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the `known` formats that some site's images are in."""
    found = {one for description in sites.values() for one in description["formats"]}
    return tuple(one for one in known if one in found) or known


class Together(NamedTuple):
    """The server's own images and those of the sites."""

    name: str  # how tables call them
    key: str  # changes with any of them
    formats: tuple[str, ...]


def together(sites: Sites, server: Together, known: tuple[str, ...]) -> Together:
    ours, theirs = server.name, name(sites)
    called = STANDIN if STANDIN in (ours, theirs) else f"{ours}, {theirs}"
    key = hashlib.sha256(f"{server.key} {fingerprint(sites)}".encode()).hexdigest()[:16]
    found = {*server.formats, *formats(sites, known)}
    return Together(called, key, tuple(one for one in known if one in found))


def fingerprint(sites: Sites) -> str:
    """Sixteen hex digits that change with the images of any site."""
    each = {name: description["fingerprint"] for name, description in sites.items()}
    return hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()[:16]


def relative_manifest(description: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of a site as its worker sees them, made from what it published: for the coordinator.

    With a column of masks only if every image has one: which of them do is not published.
    """
    rows = [
        (relative_path(split, index, number), label, description["name"], split)
        for split, counts in description["images"].items()
        for index, label in enumerate(description["classes"])
        for number in range(counts[label])
    ]
    table = pd.DataFrame(rows, columns=list(manifests.COLUMNS))
    return table.assign(mask=table.path + MASK) if description["masks"] == len(table) else table


def relative_path(split: str, index: int, number: int) -> str:
    """Where a site's worker finds the image with this number of a split and a class."""
    return f"{split}/{index}/{number:06d}"
