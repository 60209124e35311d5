"""Where the patches come from: a WILDS folder, folders of patches, a manifest, the sites, or the stand-in."""

import dataclasses
import pathlib
from typing import Any

import pandas as pd

from tffapps import STANDIN, Common, Flags, Pool, Split, UserError, data_folder
from tffapps.data import held_out, images, layouts, manifest, published, standin, tissue
from tffapps.data.unreadable import readable
from tffapps.fedsda import FedsdaSettings

_MADE = "png"  # the format of images that are made
ROW = "row"  # the column that says which of its site's rows a row is
FEDERATION = "federation"  # the test images of all centres; other folds are named after the centre left out


@dataclasses.dataclass(frozen=True)
class PatchPool(Pool):
    """Patches; `formats` are those of the patches and of the images that are made of them."""

    noun: str = "patches"
    truth: pd.DataFrame | None = None  # the true stains by path, of a stand-in


@dataclasses.dataclass(frozen=True)
class Fold:
    """What one federation trains and is tested on."""

    name: str
    train: pd.DataFrame
    test: pd.DataFrame
    val: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    split: Split | None = None  # of the pool, that it is a part of

    @property
    def identity(self) -> str:
        """Of all federations of a command."""
        return f"{self.split.name} {self.name}".strip() if self.split else self.name

    @property
    def labels(self) -> dict[str, str]:
        """Of its runs."""
        return {"fold": self.name, **(self.split.labels if self.split else {})}

    @property
    def clients(self) -> list[str]:
        return sorted(set(self.train.client), key=manifest.natural_key)

    @property
    def without(self) -> str:
        """The part of a run's name that says which centre is left out, if one is."""
        return "" if self.name == FEDERATION else f"without-{self.name}"

    def of_client(self, client: str) -> pd.DataFrame:
        """A client's training patches."""
        return self.train[self.train.client == client]


def folds(split: Split, flags: Flags) -> list[Fold]:
    """The whole federation and, if asked for, for each centre the federation of the others, tested on all of it.

    On its test images alone where the pool was divided anew: each is tested once then. A centre without test images
    is trained with and never left out.
    """
    train, val = split.pool.part("train"), split.pool.part("val")
    table = split.pool.part("test") if split.name else split.pool.table
    federations = [Fold(FEDERATION, train, split.pool.part("test"), val, split)]
    _check_left_out(flags[FedsdaSettings])
    if flags[FedsdaSettings].leave_out:
        clients = federations[0].clients
        tested = set(federations[0].test.client)
        if len(clients) < 2:
            raise UserError("--leave-out: there is only one centre, and none would be left to train on")
        if FEDERATION in clients:
            raise UserError(f"--leave-out: a centre cannot be called {FEDERATION}, which is all of them; rename it")
        federations += [
            Fold(name, train[train.client != name], table[table.client == name], val[val.client != name], split)
            for name in clients
            if name in tested
        ]
    for fold in federations:
        flags[Common].check_clients(len(fold.clients))
    return federations


def _check_left_out(settings: FedsdaSettings) -> None:
    named = ",".join(settings.leave_out_sides)
    missing = [side for side in settings.leave_out_sides if side not in settings.sides]
    if named and not settings.leave_out:
        raise UserError(f"--leave-out-sides {named}: no centre is left out; add --leave-out")
    if missing:
        raise UserError(f"--leave-out-sides {missing[0]}: not one of --sides {','.join(settings.sides)}; add it there")


def load(flags: Flags) -> PatchPool:
    """What --data has, checked, or the stand-in."""
    settings, notes = flags[FedsdaSettings], list[str]()
    source = pathlib.Path(flags[Common].data) if flags[Common].data else _standin(settings)
    name, truth = source.stem, None
    layout = layouts.recognise(source, ("manifest", "wilds", "centres"))
    if layout == "manifest":
        table = layouts.read(source, (layout,), notes)
        manifest.check(table)
        table = held_out.with_test(table, source, notes)
    else:
        options: dict[str, Any] = {"train": settings.train_share} if settings.train_share else {}
        if settings.quality_only and layout == "centres":
            options["one_class"] = True
        table = layouts.read(source, (layout,), notes, **options)
        name = STANDIN if standin.is_standin(source) else source.resolve().name
        truth = tissue.true_stains(source) if (source / tissue.STAINS).is_file() else None
    table, rejected = readable(table, "patches")
    if len(rejected):
        manifest.check(table)
    if not settings.quality_only:
        manifest.check_classes(table, "--data", notes)
    for split in ("train",) if settings.quality_only else ("train", "test"):
        if not (table.split == split).any():
            raise UserError(f"--data: no patch is left to {split} with")
    return PatchPool(
        name, table, manifest.classes(table), manifest.fingerprint(table), _with_made(images.formats_of(table.path)),
        given=True, notes=tuple(notes), rejected=rejected, truth=truth,
    )  # fmt: skip


def of_sites(sites: published.Sites) -> PatchPool:
    """What the sites have published: paths mean something there only."""
    notes: list[str] = []
    table = published.manifest(sites, notes)
    table[ROW] = table.groupby("client").cumcount()
    table = published.with_test(sites, table, notes)
    return PatchPool(
        published.name(sites), table, manifest.classes(table), published.fingerprint(sites),
        _with_made(published.formats(sites, images.FORMATS)), given=True, at_sites=True, notes=tuple(notes),
    )  # fmt: skip


def look(flags: Flags) -> PatchPool:
    """What a run finds in --data, the federations tried; stains are not measured."""
    pool = load(flags)
    folds(Split("", pool), flags)
    return pool


def _standin(settings: FedsdaSettings) -> pathlib.Path:
    patches, centres = settings.standin_patches, settings.standin_centres
    source = data_folder() / f"tissue-{centres}x{patches}"
    tissue.write_tissue(source, patches=patches, centres=centres)
    return source


def _with_made(formats: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in images.FORMATS if name in formats or name == _MADE)
