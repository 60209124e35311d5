"""A test split for data that comes without one."""

import pandas as pd

from tffapps.data import partition
from tffapps.data.manifest import add

SHARE = 0.2


def with_test(table: pd.DataFrame, source: object, notes: list[str] | None = None) -> pd.DataFrame:
    """The manifest, a fifth of its training images held out (by client and class, subjects whole) if none are."""
    if (table.split == "test").any():
        return table
    add(notes, f"no test split in {source}: a fifth of the training images, drawn by class, is held out")
    training = (table.split == "train").to_numpy()
    strata = (table.client + "/" + table.label)[training].tolist()
    groups = None
    if "subject" in table:  # an image without one is a subject of its own
        groups = table.subject.where(table.subject != "", table.path)[training].tolist()
    part = partition.stratified(strata, [1 - SHARE, SHARE], seed=0, groups=groups)
    table = table.copy()
    table.loc[table.index[training][part == 1], "split"] = "test"
    return table
