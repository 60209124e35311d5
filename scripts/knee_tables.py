"""The tables of real X-rays in docs/plfl.md, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pandas as pd

Cells = tuple[list[str], list[list[str]]]
Mean = Callable[[Any, str], str]  # a score and its interval, of a row and a metric

ROWS = {
    "gold": "gold only", "gold+": "gold continued", "fixmatch": "fssfl, mended",
    "fssfl-labelled": "fssfl's labels alone", "labels": "all labels, federated", "central": "all labels, one place",
}  # fmt: skip


def real(folder: pathlib.Path, mean: Mean) -> Cells:
    table, claims = pd.read_csv(folder / "comparison.csv"), pd.read_csv(folder / "claims.csv")
    against = claims[(claims.baseline == "gold continued") & (claims.metric == "macro_f1")].set_index("method")
    columns = ["framework", "accuracy", "macro F1", "quadratic κ", "severe found", "ECE", "macro F1 to gold continued"]
    rows = []
    for row in table.itertuples():
        gain = ""
        if row.framework in against.index:
            claim = against.loc[row.framework]
            gain = f"{claim.gain:+.3f}, p {claim.p_holm:.3f}: {claim.verdict}"
        scores = [mean(row, metric) for metric in ("accuracy", "macro_f1", "quadratic_kappa", "recall_severe")]
        rows.append([ROWS.get(row.framework, row.framework), *scores, f"{row.ece:.3f}", gain])
    return columns, rows


def label_shares(folder: pathlib.Path, mean: Mean) -> Cells:
    table = pd.read_csv(folder / "label_shares.csv")
    shares = sorted(set(table.share))
    cells = table.set_index(["framework", "share"])
    rows = [
        [ROWS.get(name, name), *(mean(cells.loc[(name, share)], "macro_f1") for share in shares)]
        for name in dict.fromkeys(table.framework)
    ]
    return ["macro F1", *(f"{share:.0%} labelled" for share in shares)], rows


def search(folder: pathlib.Path, mean: Mean) -> Cells:
    """What was tried on validation people, in its order."""
    table = pd.read_csv(folder / "search.csv")
    columns = ["settings", "framework", "accuracy", "macro F1", "quadratic κ", "folds"]
    rows = [
        [
            row.settings, ROWS.get(row.framework, row.framework), f"{row.accuracy:.3f}", f"{row.macro_f1:.3f}",
            f"{row.quadratic_kappa:.3f}", str(row.splits),
        ]
        for row in table.itertuples()
    ]  # fmt: skip
    return columns, rows
