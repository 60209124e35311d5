"""Tables of a command whose images were divided anew, or whose settings were tuned."""

import pathlib
from collections.abc import Sequence

import pandas as pd

from tffapps.data import splits
from tffapps.data.splits import Split
from tffapps.results import write_table
from tffapps.study import Record

SPLIT, SEED, TUNED = "split", "seed", "tuned"


def write(
    folder: pathlib.Path, records: Sequence[Record], divided: Sequence[Split], metrics: Sequence[str], **what_ran: str
) -> None:
    """One row a run, and the sizes of splits; nothing where the data's own split was used.

    Args:
      folder: of the system.
      records: of finished runs, whose summary has the metrics.
      divided: the splits.
      metrics: columns.
      what_ran: for the last columns; data among it.
    """
    if not divided[0].name:
        return
    rows = pd.DataFrame([{**record.labels, TUNED: record.tuned, **record.summary} for record in records])
    rows = rows.drop(columns=[TUNED] * (not rows[TUNED].any()))
    labels = [name for name in records[0].labels if name not in (SPLIT, SEED, *what_ran)]
    columns = [name for name in (SPLIT, *labels, SEED, "round", TUNED, *metrics) if name in rows]
    order = rows[columns].sort_values(SPLIT, kind="stable", key=lambda names: names.map(_number))
    write_table(folder / "by_split.csv", order, **what_ran)
    write_table(folder / "split_sizes.csv", splits.sizes(divided), data=what_ran["data"])


def with_tuned(table: pd.DataFrame, records: Sequence[Record], by: Sequence[str]) -> pd.DataFrame:
    """The table, with the settings that were chosen for each of its rows, and on how many splits."""
    if not any(record.tuned for record in records):
        return table
    rows = pd.DataFrame([{**record.labels, TUNED: record.tuned} for record in records])
    tuned = rows.groupby(list(by), sort=False, dropna=False)[TUNED].agg(_counted).reset_index()
    return table.merge(tuned, on=list(by), how="left")


def _number(name: str) -> tuple[int, int]:
    repeat, _, fold = name[1:].partition("f")
    return int(repeat), int(fold)


def _counted(chosen: pd.Series) -> str:
    counts = chosen.value_counts(sort=False)
    if len(counts) == 1:
        return str(counts.index[0])
    return ", ".join(f"{text} ({count} of {len(chosen)})" for text, count in counts.items())
