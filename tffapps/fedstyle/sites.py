"""Artists at sites: their pictures beside the public ones, which are the server's, and what can be studied so."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tffapps import fedstyle
from tffapps.data import artists, manifest, published
from tffapps.errors import UserError
from tffapps.fedstyle import data
from tffapps.fedstyle.data import Pool

_NEEDS_FILES = ("heterogeneity", "cloaking")  # studies that deal pictures out anew, or change them


def with_sites(server: Pool, sites: published.Sites) -> Pool:
    """The public pictures and those of the sites, whose paths mean nothing here. A site's classes are its artists."""
    from tffapps.data.images import FORMATS  # imports TensorFlow

    if artists.SERVER in sites:
        raise UserError(f"--engine: a site is called {artists.SERVER}, as the coordinator's own data is; rename it")
    rows, notes = artists.as_given(published.with_test(sites, published.manifest(sites)))
    public = _of_the_same(server.table, rows)
    table = pd.concat([public, rows], ignore_index=True)
    data.check(table, "--engine")
    for note in [*notes, *artists.few(table)]:
        print(note, file=sys.stderr)
    both = published.together(sites, published.Together(server.name, server.key, server.formats), FORMATS)
    return dataclasses.replace(server, **both._asdict(), table=table, at_sites=True)


def _of_the_same(public: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The public pictures of the sites' artists.

    An artist whom the server does not know is refused: more likely than not the two spell a name differently. Whom no
    site has cannot be tested with, and is left out.
    """
    known = manifest.classes(public)
    for site, own in rows.groupby("client"):
        unknown = [artist for artist in manifest.classes(own) if artist not in known]
        if unknown:
            raise UserError(
                f"--engine: {site} has the artist {unknown[0]}, and the server public pictures of {', '.join(known)};"
                " give artists the same names, and every one a public picture"
            )
    idle = [artist for artist in known if artist not in set(rows.label)]
    if idle:
        print(f"public pictures that are left out, their artists being at no site: {', '.join(idle)}", file=sys.stderr)
    return public[public.label.isin(set(rows.label))]


def fitted(settings: fedstyle.Settings, count: int) -> fedstyle.Settings:
    """The settings for so many artists: where fewer are there than asked for, all of them take part."""
    if settings.artists not in (0, count):
        taken = f"the first {settings.artists}" if settings.artists < count else "all"
        print(f"--artists {settings.artists}: the sites have {count}, and {taken} of them take part", file=sys.stderr)
    return dataclasses.replace(settings, artists=min(settings.artists, count))


def without_files(values: dict[str, Any], count: int) -> dict[str, Any]:
    """The flags, without the studies that need the pictures here, or more artists than the sites have."""
    asked: Sequence[str] = values["studies"]
    gone = [study for study in _NEEDS_FILES if study in asked]
    if gone:
        print(
            f"{' and '.join(gone)}: left out, pictures are dealt out anew or changed there, and these are at the sites",
            file=sys.stderr,
        )
    counts = tuple(one for one in values["scalability"] if one <= count)
    if "scalability" in asked and counts != values["scalability"]:
        more = ", ".join(str(one) for one in values["scalability"] if one > count)
        print(f"scalability: {more} artists are left out, the sites have {count}", file=sys.stderr)
    return {**values, "studies": tuple(study for study in asked if study not in gone), "scalability": counts}
