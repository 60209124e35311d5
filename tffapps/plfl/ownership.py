"""Server and clients as the data says, and not divided anew: a manifest that names them, or sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from tffapps.data import oai, partition, published
from tffapps.data.manifest import SPLITS, natural_key
from tffapps.errors import UserError

TESTED = ("csfl", "fssfl")  # the methods whose clients test, too
_LABELLED_SHARES = (0.2, 0.8)  # of a client's training images: those of fssfl whose labels it knows, and the others


def is_given(table: pd.DataFrame) -> bool:
    """Whether a manifest says who the server is, and who else there is."""
    return oai.SERVER in set(table.client) and table.client.nunique() > 1


def clients(table: pd.DataFrame) -> tuple[str, ...]:
    return tuple(sorted(set(table.client) - {oai.SERVER}, key=natural_key))


def check(table: pd.DataFrame, classes: Sequence[str], methods: Sequence[str], source: str) -> None:
    """Refuses what some method could not run on; `source` is where the rows are from."""
    server = table[table.client == oai.SERVER]
    for split in SPLITS:
        if not (server.split == split).any():
            raise UserError(f"{source}: no {split} image of the server; it needs all of {', '.join(SPLITS)}")
    missing = [label for label in classes if label not in set(server.label[server.split == "train"])]
    if missing:
        raise UserError(
            f"{source}: no {' and no '.join(missing)} among the server's training images; give it some of every class"
        )
    tested = [method for method in methods if method in TESTED]
    for client in clients(table):
        own = set(table.split[table.client == client])
        if "train" not in own:
            raise UserError(f"{source}: no train image of {client}; give it some, or leave it out")
        if tested and "test" not in own:
            raise UserError(
                f"--methods {tested[0]}: {client} has no image of split test, and clients test there;"
                " give it some, or choose other methods"
            )


def split(table: pd.DataFrame, kind: str, seed: int) -> pd.DataFrame:
    """What `oai` does with a pool. Only fssfl draws: which labels a client knows, by class and order alone."""
    table = table.reset_index(drop=True)
    if kind != "fssfl":
        return table
    table["labelled"] = True
    for client in clients(table):
        rows = table.index[(table.client == client) & (table.split == "train")]
        try:
            part = partition.stratified(list(table.label[rows]), _LABELLED_SHARES, seed)
        except UserError as error:
            raise UserError(f"the labels that {client} knows in fssfl: {error}") from None
        table.loc[rows, "labelled"] = part == 0
    return table


def of_sites(sites: Mapping[str, Mapping[str, Any]], classes: Sequence[str]) -> pd.DataFrame:
    """The rows of the sites; their classes have to be among the server's.

    Where the server's are those of the OAI folder, a site may have its grades: 1 and 2 are left out here as well.
    """
    if oai.SERVER in sites:
        raise UserError(f"--engine: a site is called {oai.SERVER}, as the coordinator's own data is; rename it")
    table = published.manifest(sites)
    if list(classes) == list(oai.LABELS.values()):
        table = _graded(table)
    for site, rows in table.groupby("client"):
        unknown = sorted(set(rows.label) - set(classes), key=natural_key)
        if unknown:
            raise UserError(
                f"--engine: {site} has the class {unknown[0]}, and the server has {', '.join(classes)};"
                " give the classes the same names"
            )
    return table


def _graded(table: pd.DataFrame) -> pd.DataFrame:
    parts = []
    for _, rows in table.groupby("client", sort=False):
        if set(rows.label) <= set(oai.GRADES):
            rows = rows[rows.label.isin(list(oai.LABELS))]
            rows = rows.assign(label=rows.label.map(oai.LABELS))
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)
