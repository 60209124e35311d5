"""Where the images come from: a folder, a manifest, the sites, or the stand-in."""

from __future__ import annotations

import pathlib

from tffapps.app import Common
from tffapps.classify import ClassifySettings
from tffapps.data import held_out, images, published, standin, textures
from tffapps.data import manifest as manifests
from tffapps.data.pool import STANDIN, Pool
from tffapps.data.unreadable import readable
from tffapps.home import data_folder
from tffapps.settings import Flags


def load(flags: Flags) -> Pool:
    """What --data has, checked, or the stand-in."""
    settings, notes = flags[ClassifySettings], list[str]()
    source = pathlib.Path(flags[Common].data) if flags[Common].data else _standin(settings)
    table = manifests.load(source, notes)
    manifests.check(table)
    table, rejected = readable(table, "images", settings.channels)
    if len(rejected):
        manifests.check(table)
    manifests.check_classes(table, f"--data {source}", notes)
    table = held_out.with_test(table, source, notes)
    name = STANDIN if standin.is_standin(source) else source.resolve().name
    return Pool(
        name, table, manifests.classes(table), manifests.fingerprint(table), images.formats_of(table.path),
        given=True, notes=tuple(notes), rejected=rejected,
    )  # fmt: skip


def of_sites(sites: published.Sites) -> Pool:
    """What the sites have published."""
    notes: list[str] = []
    table = published.with_test(sites, published.manifest(sites, notes), notes)
    return Pool(
        published.name(sites), table, manifests.classes(table), published.fingerprint(sites),
        published.formats(sites, images.FORMATS), given=True, at_sites=True, notes=tuple(notes),
    )  # fmt: skip


def look(flags: Flags) -> Pool:
    """What a run would find in --data."""
    return load(flags)


def _standin(settings: ClassifySettings) -> pathlib.Path:
    source = data_folder() / f"textures-{settings.size}-{settings.standin_images}"
    textures.write_textures(source, per_class=settings.standin_images, size=settings.size)
    return source
