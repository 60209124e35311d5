"""The tables of `results/fedsda/`, the paper's own values beside ours."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from models import stain_diffusion
from tffapps.data import wilds
from tffapps.fedsda import METRICS, paper
from tffapps.fedsda.data import FEDERATION, Pool
from tffapps.fedsda.diffusion import Learned
from tffapps.fedsda.stains import Stains
from tffapps.files import short
from tffapps.results import over_seeds, write_table

if TYPE_CHECKING:
    from tffapps.fedsda.runs import Record


def say_unmeasured(measured: Stains, folder: pathlib.Path) -> None:
    """Lists the patches whose stains could not be measured: they stay as they are."""
    bad = np.flatnonzero(~measured.ok)
    rows = [(short(measured.paths[row]), measured.reasons[row]) for row in bad]
    write_table(folder / "unmeasured.csv", pd.DataFrame(rows, columns=["path", "reason"]))
    if len(bad):
        print(
            f"{len(bad)} of {len(measured.paths)} training patches keep their stains ({measured.kinds(bad)}); "
            f"listed in {folder / 'unmeasured.csv'}",
            file=sys.stderr,
        )


def write_all(
    folder: pathlib.Path,
    pool: Pool,
    separation: Sequence[dict[str, Any]],
    records: Sequence[Record],
    stain_models: Sequence[Learned],
    between: Sequence[float],
    quality: dict[str, Any],
    what_ran: dict[str, str],
) -> None:
    """`separation` has a row for each client, `between` the distances between clients' stains, every two."""
    scores = _scores(records)
    everyone = scores[scores.fold == FEDERATION].drop(columns="fold")
    write_table(folder / "data.csv", wilds.distribution(pool.table), data=what_ran["data"])
    write_table(folder / "separation.csv", pd.DataFrame(separation), data=what_ran["data"])
    write_table(folder / "table2_optimisers.csv", table2(everyone), **what_ran)
    if quality:
        write_table(folder / "table3_alignment.csv", table3(everyone, quality), **what_ran)
    if stain_models:
        about = {name: what_ran[name] for name in ("data", "profile")}
        write_table(folder / "table1_diffusion.csv", table1(stain_models, between), **about)
        write_table(folder / "rounds_vs_epochs.csv", rounds_vs_epochs(stain_models), **about)
    if (scores.fold != FEDERATION).any():
        left_out = scores[scores.fold != FEDERATION].rename(columns={"fold": "left_out"})
        write_table(folder / "left_out.csv", left_out, **what_ran)
    shown = everyone[["method", "side", "auroc", "auroc_std", "auprc", "accuracy", "seeds"]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def _scores(records: Sequence[Record]) -> pd.DataFrame:
    rows = [
        {"fold": r.fold, "method": r.method, "side": r.side, "seed": r.seed, **r.rounds.iloc[-1][list(METRICS)]}
        for r in records
    ]
    table = over_seeds(pd.DataFrame(rows), ["fold", "method", "side"], METRICS)
    return table.assign(rounds=len(records[0].rounds))


def table1(stain_models: Sequence[Learned], between: Sequence[float]) -> pd.DataFrame:
    """Denoisers. Distances are in units of the federation's standard deviations; the paper does not say its unit."""
    rows: list[dict[str, Any]] = []
    for learned in stain_models:
        if learned.block in [row["block"] for row in rows]:
            continue  # another schedule of the same
        last = learned.rounds.iloc[-1]
        transformer = learned.block == "transformer"
        rows.append(
            {
                "block": learned.block, "hidden": stain_diffusion.WIDTH,
                "heads": stain_diffusion.HEADS if transformer else None,
                "parameters": learned.model.denoiser.count_params(), "clients": len(learned.model.clients),
                "rounds": int(last["round"]), "epochs": learned.epochs,
                "fd": last.fd, "worst_client_fd": last.worst_fd, "wd": last.wd,
                "fd_between_clients": float(np.mean(between)) if len(between) else None,
                "fd_between_nearest": float(np.min(between)) if len(between) else None,
                "paper_fd": paper.FD[learned.block],
            }
        )  # fmt: skip
    return pd.DataFrame(rows).astype({"heads": "Int64"})


def rounds_vs_epochs(stain_models: Sequence[Learned]) -> pd.DataFrame:
    """Figure 7: where the distance was measured along each schedule of the first block."""
    first = stain_models[0].block
    parts = [
        learned.rounds[["round", "fd", "wd"]].dropna().assign(local_epochs=learned.epochs)
        for learned in stain_models
        if learned.block == first
    ]
    table = pd.concat(parts, ignore_index=True)
    table["epochs_in_all"] = table["round"] * table.local_epochs
    return table[["local_epochs", "round", "epochs_in_all", "fd", "wd"]]


def table2(scores: pd.DataFrame) -> pd.DataFrame:
    """Methods before and after FedSDA."""
    table = scores[scores.side.isin(("none", "fedsda"))]
    return _with_areas(table)


def table3(scores: pd.DataFrame, quality: dict[str, Any]) -> pd.DataFrame:
    """Alignments under FedAvg (or whatever else was run), with what they do to pictures."""
    first = "fedavg" if (scores.method == "fedavg").any() else scores.method.iloc[0]
    table = _with_areas(scores[(scores.method == first)])
    for place, name in enumerate(("ssim", "fid", "kid", "wd")):
        table[name] = [quality["scores"][side][name] for side in table.side]
        table[f"paper_{name}"] = [paper.QUALITY[side][place] for side in table.side]
    return table.assign(features=quality["label"])


def _with_areas(table: pd.DataFrame) -> pd.DataFrame:
    table = table.copy()
    for place, name in enumerate(("paper_c17_auroc", "paper_a22_auroc", "paper_a22_auprc")):
        keys = zip(table.method, table.side)
        table[name] = [paper.AREAS[key][place] if key in paper.AREAS else None for key in keys]
    return table
