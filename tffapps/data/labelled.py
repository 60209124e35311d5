"""Pools of labelled images whose clients are as the data names them: a folder, a manifest, or sites."""

import pathlib

from tffapps.data import held_out, images, layouts, published, standin
from tffapps.data import manifest as manifests
from tffapps.data.pool import STANDIN, Pool
from tffapps.data.unreadable import readable

LAYOUTS = ("manifest", "folders")


def load(source: pathlib.Path, channels: int = 3, noun: str = "images") -> Pool:
    """What lies at `source`, checked; a fifth is held out for testing if it has no test split."""
    notes: list[str] = []
    table = layouts.read(source, LAYOUTS, notes)
    manifests.check(table)
    table, rejected = readable(table, noun, channels)
    if len(rejected):
        manifests.check(table)
    manifests.check_classes(table, f"--data {source}", notes)
    table = held_out.with_test(table, source, notes)
    name = STANDIN if standin.is_standin(source) else source.resolve().name
    return Pool(
        name, table, manifests.classes(table), manifests.fingerprint(table), images.formats_of(table.path),
        given=True, noun=noun, notes=tuple(notes), rejected=rejected,
    )  # fmt: skip


def of_sites(sites: published.Sites) -> Pool:
    """What sites have published: paths mean something there alone."""
    notes: list[str] = []
    table = published.with_test(sites, published.manifest(sites, notes), notes)
    return Pool(
        published.name(sites), table, manifests.classes(table), published.fingerprint(sites),
        published.formats(sites, images.FORMATS), given=True, at_sites=True, notes=tuple(notes),
    )  # fmt: skip
