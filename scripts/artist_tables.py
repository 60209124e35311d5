"""The tables of real paintings in docs/fedstyle.md, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pandas as pd

Cells = tuple[list[str], list[list[str]]]
Mean = Callable[[Any, str], str]  # a score and its interval, of a row and a metric


def real(folder: pathlib.Path, mean: Mean) -> Cells:
    """Every method with how it was chosen, and FedStyle's gain over it."""
    table, claims = pd.read_csv(folder / "comparison.csv"), pd.read_csv(folder / "claims.csv")
    against = {row.baseline.partition(" from ")[0]: row for row in claims.itertuples()}
    columns = ["method", "accuracy", "macro F1", "top 3", "MRR", "learning rate", "best round", "converged"]
    rows = []
    for row in table.itertuples():
        scores = [mean(row, metric) for metric in ("accuracy", "macro_f1", "top_3", "mrr")]
        trained = row.rounds > 0
        rate = "" if pd.isna(row.tuned) else row.tuned.replace("learning_rate=", "")
        ended = "" if pd.isna(row.converged) else f"{row.converged:.0%} of splits"
        rows.append([row.method, *scores, rate, f"{row.chosen_round:.0f}" if trained else "", ended])
        rows[-1].append(_gain(against[row.method]) if row.method in against else "")
    return [*columns, "FedStyle's gain"], rows


def holdout(folder: pathlib.Path, mean: Mean) -> Cells:
    table = pd.read_csv(folder / "holdout.csv")
    columns = ["embedding", "measure", "top-1", "mAP@10", "open-set AUROC", "membership AUROC"]
    metrics = ("top_1", "map_10", "open_set_auroc", "membership_auroc")
    return columns, [[row.encoder, row.measure, *(mean(row, each) for each in metrics)] for row in table.itertuples()]


def holdout_claims(folder: pathlib.Path, mean: Mean) -> Cells:
    table = pd.read_csv(folder / "holdout_claims.csv")
    names = {"top_1": "top-1", "map_10": "mAP@10"}
    rows = [
        [names[row.metric], f"{row.method_score:.3f}", f"{row.baseline} {row.baseline_score:.3f}", _gain(row)]
        for row in table.itertuples()
    ]
    return ["metric", "served", "against", "gain"], rows


def _gain(row: Any) -> str:
    verdict = f"**{row.verdict}**" if row.verdict in ("ahead", "behind") else row.verdict
    return f"{row.gain:+.3f} [{row.gain_low:+.3f}, {row.gain_high:+.3f}], p {row.p_holm:.3f}: {verdict}"
