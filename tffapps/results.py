"""Tables: one CSV for each table of a paper, mean and spread over seeds, and what ran beside every number."""

import pathlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tffapps.files import replacing

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a cell begins with that a spreadsheet would run


def over_seeds(rows: pd.DataFrame, by: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """One row for each combination of `by`: `<metric>` (mean over seeds), `<metric>_std`, and `seeds`.

    The spread is the sample standard deviation; blank for a single seed. Where rows have a `split`, the seeds of each
    are averaged first, mean and spread are over splits, and `splits` says how many there are.
    """
    if "split" in rows.columns:
        seeds = rows.groupby(list(by), sort=False, dropna=False)["seed"].agg(_listed).reset_index(name="seeds")
        of_splits = rows.groupby([*by, "split"], sort=False, dropna=False)[list(metrics)].mean().reset_index()
        table = over_seeds(of_splits.rename(columns={"split": "seed"}), by, metrics)
        return table.assign(splits=[len(names.split()) for names in table.seeds], seeds=seeds.seeds)
    groups = rows.groupby(list(by), sort=False, dropna=False)
    table = groups[list(metrics)].mean()
    table.columns = pd.Index(metrics)
    spread = groups[list(metrics)].std(ddof=1)
    ordered: dict[str, pd.Series] = {}
    for metric in metrics:
        ordered[metric] = table[metric]
        ordered[f"{metric}_std"] = spread[metric]
    ordered["seeds"] = groups["seed"].agg(_listed)
    return pd.DataFrame(ordered).reset_index()


def _listed(seeds: pd.Series) -> str:
    return " ".join(str(seed) for seed in sorted(set(seeds)))


def with_paper(
    table: pd.DataFrame, values: dict[tuple, float], by: Sequence[str], column: str = "paper"
) -> pd.DataFrame:
    """The paper's own value beside each row where there is one, blank where there is none."""
    keys = table[list(by)].itertuples(index=False, name=None)
    return table.assign(**{column: [values.get(key) for key in keys]})


def write_table(path: pathlib.Path, table: pd.DataFrame, **what_ran: str) -> None:
    """Writes a CSV whose last columns say what ran: data, profile, weights, …"""
    whole = table.assign(**what_ran)
    # Not of numbers: whole ones of a column with blanks would become others, and lose digits.
    text: dict[str, Any] = {
        str(name): whole[name].map(as_text) for name in whole.select_dtypes(exclude="number").columns
    }
    with replacing(path) as file:
        whole.assign(**text).to_csv(file, index=False, float_format="%.6g")


def as_text(cell: Any) -> Any:
    """Of text that a spreadsheet would take for a formula, text: names come from other people's files."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) and cell != "-" else cell
