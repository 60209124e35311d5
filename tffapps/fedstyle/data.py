"""Where the pictures come from, and the federations that are made of them.

Across sites they are the public ones, the server's; `placement` adds the others, which are at the sites.
"""

import dataclasses
import pathlib
import zlib

import numpy as np
import pandas as pd

from tffapps import STANDIN, VALIDATION, Common, Flags, Pool, Split, UserError, data_folder
from tffapps.data import artists, layouts, made, manifest, painters, partition, splits, standin
from tffapps.fedstyle import FedStyleSettings, FedStyleStandinSettings, FedStyleStudySettings

SINGLE = "single"  # one artist, one client
GIVEN = "given"  # the clients that a manifest names, or sites


@dataclasses.dataclass(frozen=True)
class Federation:
    """Who trains on what. Classes are the artists, in natural order."""

    name: str  # how the pictures are dealt out
    pool: Pool  # the pictures of those who take part; splits are train, public and test
    key: str  # tells it from all others of the same pictures, number of artists and seed

    @property
    def artists(self) -> int:
        return len(self.pool.classes)

    @property
    def dealt(self) -> str:
        """How tables call the comparison's federation among others."""
        return {SINGLE: "one artist each", GIVEN: "as given"}.get(self.name, self.name)

    @property
    def shown(self) -> pd.DataFrame:
        """Pictures for a figure: they have to be here."""
        return self.pool.part("public" if self.pool.at_sites else "train")


def with_table(pool: Pool, table: pd.DataFrame) -> Pool:
    """The same with other rows, of perhaps fewer artists."""
    return dataclasses.replace(pool, table=table, classes=manifest.classes(table))


def federation(pool: Pool, count: int) -> Federation:
    """The first `count` artists, each a client if it is not said otherwise; 0: all."""
    name = GIVEN if pool.given else SINGLE
    return Federation(name, with_table(pool, artists.artists(pool.table, count)) if count else pool, name)


def dealt(pool: Pool, count: int, kind: str, alpha: float, seed: int) -> Federation:
    """The same pictures and as many clients as artists, dealt out otherwise: see `artists.heterogeneous`."""
    plain = federation(pool, count)
    table = artists.heterogeneous(plain.pool.table, kind, plain.artists, alpha, seed)
    name = f"{kind} {alpha:g}" if kind == "dirichlet" else kind
    return Federation(name, with_table(pool, table), f"{kind} {alpha}")


def divided(pool: Pool, common: Common) -> list[Split]:
    """The splits that --splits asks for. What is not tested is shared out as `artists` does: a tenth of it is public.

    A manifest's public pictures stay so, but for near-duplicates of those that are tested, which nobody trains on.
    """
    wanted = common.select == VALIDATION or bool(common.tune)
    if not common.splits:
        return [Split("", splits.with_val(pool, common) if wanted else pool)]
    return [Split(each.name, _shared_out(each)) for each in splits.of(pool, common, val=wanted)]


def _shared_out(split: Split) -> Pool:
    table = split.pool.table
    if split.pool.given:
        public = (table.client == artists.SERVER).to_numpy()
        tested = set(table.subject[(table.split == "test") & ~public])
        side = np.where(public, "public", table.split)
        kept = ~(public & table.subject.isin(tested))
        return splits.with_table(split.pool, table.assign(split=side)[kept])
    rest = np.flatnonzero(table.split == "train")
    own, seed = table.iloc[rest], zlib.crc32(split.name.encode())
    shares = [1 - artists.PUBLIC, artists.PUBLIC]
    part = partition.stratified(own.label.tolist(), shares, seed, groups=own.subject.tolist())
    side = table.split.to_numpy(object, copy=True)
    side[rest[part == 1]] = "public"
    return splits.with_table(split.pool, table.assign(split=side))


def load(flags: Flags) -> Pool:
    """All pictures, or across sites the public ones."""
    from tffapps.data.images import formats_of  # imports TensorFlow
    from tffapps.data.unreadable import readable

    across = flags[Common].across_sites
    source = pathlib.Path(flags[Common].data) if flags[Common].data else _painted(flags[FedStyleStandinSettings])
    notes: list[str] = []
    table = layouts.read(source, ("artists",), notes, public=across)
    table, rejected = readable(table, "pictures")
    if not across:
        notes += artists.few(table)
        check(table, f"--data {source}")
    name = source.stem if artists.is_manifest(source) else source.resolve().name
    return Pool(
        STANDIN if standin.is_standin(source) else name, table, manifest.classes(table), manifest.fingerprint(table),
        formats_of(table.path), given=across or artists.is_manifest(source), noun="pictures",
        notes=tuple(dict.fromkeys(notes)), rejected=rejected,
    )  # fmt: skip


def pictures_of(paths: list[str]) -> dict[int, np.ndarray]:
    """Those that can be read, by position: uint8 (height, width, 3)."""
    stacks = made.stacks(paths, rejects={})
    return {position: image for positions, images in stacks for position, image in zip(positions, images)}


def look(flags: Flags) -> Pool:
    """What a run would find in --data; are there as many artists as it asks for?"""
    pool, studies = load(flags), flags[FedStyleStudySettings]
    asked = [("artists", flags[FedStyleSettings].artists)]
    if "scalability" in studies.studies:
        asked += [("scalability", count) for count in studies.scalability]
    for flag, count in asked:
        try:
            federation(pool, count)
        except UserError as error:
            raise UserError(f"--{flag}: {error}") from None
    return pool


def check(table: pd.DataFrame, source: str) -> None:
    """Refuses what no method could run on; `source` is where the pictures are from."""
    if table.label[table.split == "train"].nunique() < 2:
        raise UserError(f"{source}: fewer than two artists have pictures to train with")
    if not (table.split == "test").any():
        raise UserError(f"{source}: no picture is left to test with; give artists two or more each")


def _painted(settings: FedStyleStandinSettings) -> pathlib.Path:
    count, pictures = settings.standin_artists, settings.standin_pictures
    size, close = settings.standin_size, settings.standin_close
    folder = data_folder() / f"painters-{size}-{count}x{pictures}-{close}"
    return painters.write_painters(folder, artists=count, images=pictures, size=size, close=close)
