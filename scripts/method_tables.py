"""The tables of docs/methods.md, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib

import pandas as pd

Cells = tuple[list[str], list[list[str]]]


def methods(folder: pathlib.Path) -> Cells:
    """All methods, with what the paired test says of each beside FedAvg; personal ones answer another question."""
    claims = pd.read_csv(folder / "claims.csv").set_index("method")
    rows = []
    for row in pd.read_csv(folder / "comparison.csv").itertuples():
        beside = ["", "", ""]
        if row.method in claims.index and row.personal == "no":
            claim = claims.loc[row.method]
            gain = f"{claim.gain:+.3f} [{claim.gain_low:+.3f}, {claim.gain_high:+.3f}]"
            beside = [gain, f"{claim.p_holm:.3f}", claim.verdict]
        name = f"{row.method} (personal)" if row.personal == "yes" else row.method
        scores = [f"{row.macro_f1:.3f} [{row.macro_f1_low:.3f}, {row.macro_f1_high:.3f}]", f"{row.accuracy:.3f}"]
        rows.append([name, *scores, *beside, f"{row.worst_client_macro_f1:.3f}", str(row.tuned)])
    return ["method", "macro F1", "accuracy", "to FedAvg", "p, corrected", "verdict", "worst client", "chosen"], rows


def attacks(folder: pathlib.Path) -> Cells:
    """Macro F1 by attack, and how many patched images are taken for the target, under the backdoor and under none."""
    table = pd.read_csv(folder / "attacks.csv")
    rows = []
    for aggregator, part in table.groupby("aggregator", sort=False):
        own = {row.attack: row for row in part.itertuples()}
        rows.append([str(aggregator), *map(_score, own.values())])
        rows[-1].append(f"{own['backdoor'].backdoor_success:.2f} ({own['none'].backdoor_success:.2f})")
    return ["aggregator", *dict.fromkeys(table.attack), "backdoor opens (without)"], rows


def _score(row) -> str:
    if pd.isna(row.macro_f1):
        return "**diverged**"
    return f"**{row.macro_f1:.3f}**" if row.verdict == "behind" else f"{row.macro_f1:.3f}"
