"""Where the patches come from: Chaoyang's files, its classes as folders, sites of one's own, or the stand-in.

Chaoyang has no sites: `shared_out` divides it as the paper does, anew for every number of rare images and every
seed. Data that names its own clients keeps them, and --rare has no meaning; across sites, each site is a client.
"""

import dataclasses
import pathlib

import pandas as pd

from tffapps import STANDIN, Common, Flags, Pool, UserError, data_folder
from tffapps.data import chaoyang, glands, held_out, images, labelled, layouts, manifest, published, standin
from tffapps.data.unreadable import readable
from tffapps.fnst import Augmentation, SharingSettings

AS_GIVEN = 0  # the number of rare images where clients are given, not made
_SHARED_OUT, _GIVEN = ("chaoyang", "chaoyang classes"), ("manifest", "folders")  # layouts without clients, and with


def load(flags: Flags) -> Pool:
    """What --data has, checked, or the stand-in."""
    notes: list[str] = []
    source = pathlib.Path(flags[Common].data) if flags[Common].data else _standin(flags[SharingSettings])
    layout = layouts.recognise(source, (*_SHARED_OUT, *_GIVEN))
    table, given = layouts.read(source, (layout,), notes), layout in _GIVEN
    if given:
        table = held_out.with_test(table, source, notes)
    manifest.check(table)
    table, rejected = readable(table, "patches")
    if len(rejected):
        manifest.check(table)
    _check_splits(table, "--data")
    manifest.check_classes(table, "--data", notes)
    if given and table.client[table.split == "train"].nunique() < 2:
        raise UserError(
            "--data: only one client; styles travel between sites: give a manifest with a column client, "
            f"or {{train,test}}/<class>/* with the classes {', '.join(chaoyang.CLASSES)}, which are shared out"
        )
    return Pool(
        _name(source), table, manifest.classes(table) if given else list(chaoyang.CLASSES),
        manifest.fingerprint(table), images.formats_of(table.path),
        given=given, notes=tuple(notes), rejected=rejected,
    )  # fmt: skip


def of_sites(sites: published.Sites) -> Pool:
    """What the sites have published. Paths mean something there alone; `row` is an image's among all of its site's."""
    if len(sites) < 2:
        raise UserError("--engine: only one site; styles travel between sites: give two or more")
    pool = labelled.of_sites(sites)
    _check_splits(pool.table, "--engine")
    rows = pool.table.groupby("client", sort=False).cumcount()
    return dataclasses.replace(pool, table=pool.table.assign(row=rows))


def look(flags: Flags) -> Pool:
    """What a run would find in --data; divisions are tried, because they fail where there are too few images."""
    pool, amounts = load(flags), flags[SharingSettings].rare
    if pool.given:
        return pool
    for rare in amounts:
        for seed in flags[Common].seeds:
            shared_out(pool, rare, seed)
    shown = ", ".join(map(str, amounts))
    note = f"clients: {len(chaoyang.CLIENTS)}, drawn by every seed, with {shown} images of a rare class"
    return dataclasses.replace(pool, notes=(*pool.notes, note))


def shared_out(pool: Pool, rare: int, seed: int) -> Pool:
    """The federation: the pool itself where it has clients, otherwise each client rich in one class.

    Args:
      pool: all images.
      rare: images of every other class at a client.
      seed: decides which images those are.
    """
    if pool.given:
        return pool
    table = chaoyang.imbalanced(pool.table, rare, seed)
    return dataclasses.replace(pool, table=table, key=f"{pool.key}-rare{rare}-seed{seed}")


def rare_of(pool: Pool, augmentation: Augmentation) -> int:
    """The number of rare images that an augmentation belongs to: its contents are all the rare images there are."""
    return AS_GIVEN if pool.given else augmentation.contents


def images_of(federation: Pool, client: str, label: str) -> pd.DataFrame:
    """A client's training images of a class."""
    rows = federation.part("train", client)
    return rows[rows.label == label]


def _check_splits(table: pd.DataFrame, flag: str) -> None:
    for split in ("train", "test"):
        if not (table.split == split).any():
            raise UserError(f"{flag}: no patch is left to {split} with")


def _standin(settings: SharingSettings) -> pathlib.Path:
    train, test, size = settings.standin_train, settings.standin_test, settings.standin_size
    source = data_folder() / f"glands-{size}-{train}-{test}"
    glands.write_glands(source, train=train, test=test, size=size)
    return source


def _name(source: pathlib.Path) -> str:
    if standin.is_standin(source):
        return STANDIN
    return source.resolve().name if source.is_dir() else source.stem
