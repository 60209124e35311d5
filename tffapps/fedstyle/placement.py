"""Where the pictures are: all of them here, or those of the artists at their sites and the public ones here."""

from __future__ import annotations

import copy
import dataclasses
from typing import Protocol

import pandas as pd

from tffapps import Common, Flags, Pool, Split, UserError
from tffapps.data import artists, manifest, published
from tffapps.fedstyle import FedStyleCloakSettings, FedStyleSettings, FedStyleStudySettings, data
from tffapps.fedstyle.cloaking import Cloaks
from tffapps.fedstyle.data import Federation

_NEEDS_FILES = ("heterogeneity", "cloaking")  # studies that deal pictures out anew, or change them


class Placement(Protocol):
    """What a command's runs are made of."""

    pool: Pool  # all artists
    flags: Flags  # without what cannot be done there
    federation: Federation  # the comparison's
    cloaks: Cloaks | None  # where cloaking is studied
    split: Split  # of the pool

    def on(self, split: Split) -> Placement:
        """The same on a split of the pool."""


class Here:
    """Every picture can be read here."""

    def __init__(self, pool: Pool, flags: Flags) -> None:
        self.pool, self.flags = pool, flags
        self.federation, self.split = _checked(pool, flags), Split("", pool)
        studied = "cloaking" in flags[FedStyleStudySettings].studies
        # Early: a missing file of weights is not found out last.
        self.cloaks = Cloaks(flags[FedStyleCloakSettings], flags[FedStyleSettings].size) if studied else None

    def on(self, split: Split) -> Here:
        """The same on a split of the pool."""
        placed = copy.copy(self)
        placed.pool, placed.split, placed.federation = split.pool, split, _checked(split.pool, self.flags)
        return placed


class AtSites:
    """A site's classes are its artists; --data is the public pictures, the server's."""

    cloaks: Cloaks | None = None  # there is nothing here to be cloaked

    def __init__(self, server: Pool, flags: Flags, sites: published.Sites) -> None:
        pool = with_sites(server, sites)
        self.flags, notes = fitted(flags, len(pool.classes))
        self.pool = dataclasses.replace(pool, notes=(*pool.notes, *notes))
        self.federation, self.split = _checked(self.pool, self.flags), Split("", self.pool)

    def on(self, split: Split) -> AtSites:
        return self  # sites divide their pictures themselves


def _checked(pool: Pool, flags: Flags) -> Federation:
    federation = data.federation(pool, flags[FedStyleSettings].artists)
    flags[Common].check_clients(len(federation.pool.clients))
    return federation


def with_sites(server: Pool, sites: published.Sites) -> Pool:
    """The public pictures and those of the sites, whose paths mean nothing here."""
    from tffapps.data.images import FORMATS  # imports TensorFlow

    if artists.SERVER in sites:
        raise UserError(f"--engine: a site is called {artists.SERVER}, as the coordinator's own data is; rename it")
    notes = list(server.notes)
    rows, unused = artists.as_given(published.with_test(sites, published.manifest(sites, notes), notes))
    table = pd.concat([_of_the_same(server.table, rows, notes), rows], ignore_index=True)
    data.check(table, "--engine")
    notes += [*unused, *artists.few(table)]
    both = published.together(sites, published.Together(server.name, server.key, server.formats), FORMATS)
    pool = dataclasses.replace(server, **both._asdict(), at_sites=True, notes=tuple(notes))
    return data.with_table(pool, table)


def _of_the_same(public: pd.DataFrame, rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """The public pictures of the sites' artists.

    An artist whom the server does not know is refused: more likely than not the two spell a name differently. Whom no
    site has cannot be tested with, and is left out.
    """
    known = manifest.classes(public)
    for site, site_rows in rows.groupby("client"):
        unknown = [artist for artist in manifest.classes(site_rows) if artist not in known]
        if unknown:
            raise UserError(
                f"--engine: {site} has the artist {unknown[0]}, and the server public pictures of {', '.join(known)};"
                " give artists the same names, and every one a public picture"
            )
    idle = [artist for artist in known if artist not in set(rows.label)]
    if idle:
        notes.append(f"public pictures that are left out, their artists being at no site: {', '.join(idle)}")
    return public[public.label.isin(set(rows.label))]


def fitted(flags: Flags, count: int) -> tuple[Flags, list[str]]:
    """The flags for `count` artists at sites, and a line about everything that is not as it was asked for.

    Where fewer artists are there than asked for, all of them take part. Studies are left out that need the pictures
    here, or more artists than the sites have.
    """
    asked, studies, notes = flags[FedStyleSettings].artists, flags[FedStyleStudySettings], list[str]()
    if asked not in (0, count):
        taken = f"the first {asked}" if asked < count else "all"
        notes.append(f"--artists {asked}: the sites have {count}, and {taken} of them take part")
    gone = [study for study in _NEEDS_FILES if study in studies.studies]
    if gone:
        notes.append(
            f"{' and '.join(gone)}: left out, pictures are dealt out anew or changed there, and these are at the sites"
        )
    more = [str(number) for number in studies.scalability if number > count]
    if "scalability" in studies.studies and more:
        notes.append(f"scalability: {', '.join(more)} artists are left out, the sites have {count}")
    changed = flags.replaced(
        artists=min(asked, count),
        studies=tuple(study for study in studies.studies if study not in gone),
        scalability=tuple(number for number in studies.scalability if number <= count),
    )
    return changed, notes
