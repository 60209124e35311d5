"""Who has which images: drawn anew by every seed, or as the data says (a manifest that names them, or sites)."""

from collections.abc import Callable, Sequence

import pandas as pd

from tffapps import Common, Pool, Split, UserError
from tffapps.data import oai, partition, splits
from tffapps.data.manifest import SPLITS, natural_key
from tffapps.plfl import FIXMATCHES, SUPERVISED_PART

_DRAWN: dict[str, Callable[..., pd.DataFrame]] = {
    "csfl": oai.csfl_split,
    "plfl": oai.gold_split,
    "fssfl": oai.fssfl_split,
}
TESTED = ("csfl", "fssfl", *FIXMATCHES, SUPERVISED_PART)  # the methods whose clients test, too
_LABELLED_SHARES = (0.2, 0.8)  # of a client's training images: those of fssfl whose labels it knows, and the others


def clients(pool: Pool) -> tuple[str, ...]:
    """Those that train in rounds: everyone but the server."""
    return named_clients(pool.table) if pool.given else oai.CLIENTS


def split(pool: Pool, kind: str, seed: int, held_out: bool = False, share: float = 0.0) -> pd.DataFrame:
    """The pool's table, client and split of every image as a framework of this kind has them.

    `held_out`: the test images of the pool are the server's, under every framework and seed, and all others are divided
    as the thesis does. `share`: of what is divided, the server's labelled images under "plfl"; 0: a third.
    """
    if pool.given:
        return _as_given(pool.table, kind, seed)
    shared = {"share": share} if kind == "plfl" else {}
    if not held_out:
        return _DRAWN[kind](pool.table, seed, **shared)
    tested = pool.part("test").assign(client=oai.SERVER)
    drawn = _DRAWN[kind](pool.table[pool.table.split != "test"], seed, tested=False, **shared)
    if "labelled" in drawn:
        tested["labelled"] = True
    return pd.concat([drawn, tested], ignore_index=True)


def splits_of(
    pool: Pool, common: Common, methods: Sequence[str], classes: Sequence[str], *, tuning: bool = False
) -> list[Split]:
    """The divisions that --splits asks for; of what a manifest gives the server and the clients, it keeps who has what.

    Validation images are drawn with the server's others, but where the manifest says which are the server's. `tuning`:
    beside those each split has some that take the place of its test images, which are taken out (`Split.for_tuning`).
    """
    found = splits.of(pool, common, val=pool.given or tuning)
    if tuning:
        return [each.for_tuning() for each in found]
    if pool.given and found[0].name:
        for each in found:
            check(each.pool.table, classes, methods, f"--splits, {each.name}")
    return found


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
