"""Who has which images: drawn anew by every seed, or as the data says (a manifest that names them, or sites)."""

from collections.abc import Sequence

import pandas as pd

from tffapps import Pool, UserError
from tffapps.data import oai, partition
from tffapps.data.manifest import SPLITS, natural_key

_DRAWN = {"csfl": oai.csfl_split, "plfl": oai.gold_split, "fssfl": oai.fssfl_split}
TESTED = ("csfl", "fssfl")  # the methods whose clients test, too
_LABELLED_SHARES = (0.2, 0.8)  # of a client's training images: those of fssfl whose labels it knows, and the others


def clients(pool: Pool) -> tuple[str, ...]:
    """Those that train in rounds: everyone but the server."""
    return named_clients(pool.table) if pool.given else oai.CLIENTS


def split(pool: Pool, kind: str, seed: int) -> pd.DataFrame:
    """The pool's table, client and split of every image as a framework of this kind has them."""
    return _as_given(pool.table, kind, seed) if pool.given else _DRAWN[kind](pool.table, seed)


def is_given(table: pd.DataFrame) -> bool:
    """Whether a manifest says who the server is, and who else there is."""
    return oai.SERVER in set(table.client) and table.client.nunique() > 1


def named_clients(table: pd.DataFrame) -> tuple[str, ...]:
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
    for client in named_clients(table):
        splits = set(table.split[table.client == client])
        if "train" not in splits:
            raise UserError(f"{source}: no train image of {client}; give it some, or leave it out")
        if tested and "test" not in splits:
            raise UserError(
                f"--methods {tested[0]}: {client} has no image of split test, and clients test there;"
                " give it some, or choose other methods"
            )


def _as_given(table: pd.DataFrame, kind: str, seed: int) -> pd.DataFrame:
    """Only fssfl draws: which labels a client knows, by class and order alone."""
    table = table.reset_index(drop=True)
    if kind != "fssfl":
        return table
    table["labelled"] = True
    for client in named_clients(table):
        rows = table.index[(table.client == client) & (table.split == "train")]
        try:
            part = partition.stratified(list(table.label[rows]), _LABELLED_SHARES, seed)
        except UserError as error:
            raise UserError(f"the labels that {client} knows in fssfl: {error}") from None
        table.loc[rows, "labelled"] = part == 0
    return table
