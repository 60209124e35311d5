"""Where the clients' images are: here, beside the server's, or at the sites."""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

import pandas as pd

from tffapps import Common, Flags, Pool, UserError
from tffapps.data import grades, oai, published
from tffapps.data.manifest import natural_key
from tffapps.plfl import PlflImages, PoisonSettings, data, division


class Placement(Protocol):
    """Made before an engine is started, so that files that cannot be used are found first."""

    whole: bool  # whether networks must see whole images: features can be stored only of images that are here
    poison: tuple[float, ...]  # shares of the poisoning study

    def pool(self, sites: published.Sites) -> Pool:
        """The images of the server and of all clients; `sites` is what the engine's sites have published."""


class Here:
    """Everybody's images are in --data."""

    whole = False

    def __init__(self, flags: Flags) -> None:
        self.poison = flags[PoisonSettings].poison
        self._pool = data.load(flags)

    def pool(self, sites: published.Sites) -> Pool:
        return self._pool


class AtSites:
    """--data is the server's; each client is a site, which has prepared its own images."""

    whole = True
    poison: tuple[float, ...] = ()  # it spoils files

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self._server = data.load(flags)

    def pool(self, sites: published.Sites) -> Pool:
        from tffapps.data.images import FORMATS  # imports TensorFlow

        server, notes = self._server, [*self._server.notes]
        rows = rows_of(sites, server.classes, notes)
        table = pd.concat([server.table, rows.assign(source="", subject="")], ignore_index=True)
        division.check(table, server.classes, self._flags[Common].methods, "--engine")
        images = self._flags[PlflImages]
        if images.preprocess != "none":
            notes.append(
                "images at sites are used as they are: each site prepares its own before, with"
                f" python -m preprocessing.knee IMAGES PREPARED --contrast {images.contrast}"
            )
        if self._flags[PoisonSettings].poison:
            notes.append("the poisoning study is left out: it spoils files, and these are at the sites")
        both = published.together(sites, published.Together(server.name, server.key, server.formats), FORMATS)
        return dataclasses.replace(
            server, name=both.name, key=both.key, formats=both.formats, table=table, at_sites=True, notes=tuple(notes)
        )


def placed(flags: Flags) -> Placement:
    """As the engine is asked for."""
    if flags[Common].across_sites:
        return AtSites(flags)
    return Here(flags)


def rows_of(sites: published.Sites, classes: Sequence[str], notes: list[str]) -> pd.DataFrame:
    """The rows of the sites; their classes have to be among the server's.

    Where the server's are those of the OAI folder, a site may have its grades: those that the server
    leaves out are left out here as well.
    """
    if oai.SERVER in sites:
        raise UserError(f"--engine: a site is called {oai.SERVER}, as the coordinator's own data is; rename it")
    table = published.manifest(sites, notes)
    if set(classes) <= set(grades.NAMES.values()):
        table = _graded(table, classes)
    for site, rows in table.groupby("client"):
        unknown = sorted(set(rows.label) - set(classes), key=natural_key)
        if unknown:
            raise UserError(
                f"--engine: {site} has the class {unknown[0]}, and the server has {', '.join(classes)};"
                " give the classes the same names"
            )
    return table


def _graded(table: pd.DataFrame, classes: Sequence[str]) -> pd.DataFrame:
    used = {grade: name for grade, name in grades.NAMES.items() if name in classes}
    parts = []
    for _, rows in table.groupby("client", sort=False):
        if set(rows.label) <= set(oai.GRADES):
            rows = rows[rows.label.isin(list(used))]
            rows = rows.assign(label=rows.label.map(used))
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)
