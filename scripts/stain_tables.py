"""The tables of stain models and of real patches in docs/fedsda.md, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib

import pandas as pd

Cells = tuple[list[str], list[list[str]]]


def schedules(folder: pathlib.Path) -> Cells:
    """Stain models at 3 × 300 and at as many epochs in more rounds, for each learning rate that was run."""
    scores = ["FD", "worst client", "FD raw", "WD raw", "MMD", "told apart"]
    rows = []
    for rate in sorted(folder.glob("rate_*")):
        for row in pd.read_csv(rate / "table1_diffusion.csv").itertuples():
            trained = bool(row.epochs)
            schedule = f"{row.rounds} × {row.epochs}" if trained else str(row.rounds)
            what = [rate.name.removeprefix("rate_") if trained else "", row.block, f"{row.parameters:,}", schedule]
            distances = [f"{value:.2g}" for value in (row.fd, row.worst_client_fd, row.fd_raw, row.wd_raw)]
            rows.append([*what, *distances, f"{row.mmd:.3f}", f"{row.c2st:.2f}"])
    return ["rate", "model", "numbers", "rounds × epochs", *scores], rows


def real(folder: pathlib.Path) -> Cells:
    """What sides do to patches of real sources."""
    table = pd.read_csv(folder / "table3_alignment.csv")
    before = table.wd[table.side == "none"].iloc[0]
    rows = []
    for row in table.itertuples():
        kept = [f"{value:.3f}" for value in (row.ssim, row.density_ssim, row.spread)]
        rows.append([row.side, f"{row.wd:.3f}", f"{row.wd / before - 1:+.0%}", *kept])
    return ["images", "WD", "to none", "SSIM", "map SSIM", "spread"], rows


def restained(folder: pathlib.Path) -> Cells:
    """Sides on real tissue in known stains: all test patches, each centre's, and the gain over plain FedAvg."""
    table = pd.read_csv(folder / "table3_alignment.csv")
    centres = pd.read_csv(folder / "by_centre.csv").pivot(index="side", columns="centre", values="auroc")
    rows = []
    for row in table.itertuples():
        score = f"{row.auroc:.3f} [{row.auroc_low:.3f}, {row.auroc_high:.3f}]"
        own = [f"{value:.3f}" for value in centres.loc[row.side]]
        rows.append([row.side, score, *own, f"{row.worst_client_auroc:.3f}", str(row.seeds)])
    return ["images", "AUROC", *centres.columns, "worst", "seeds"], rows


def compared(folder: pathlib.Path) -> Cells:
    """What FedSDA and its variants gain over others on the same patches."""
    rows = []
    for row in pd.read_csv(folder / "claims.csv").itertuples():
        gain = f"{row.gain:+.3f} [{row.gain_low:+.3f}, {row.gain_high:+.3f}]"
        rows.append([row.claim, row.method, row.baseline, gain, f"{row.p_holm:.3f}", row.verdict])
    return ["score", "method", "against", "gain", "p", "verdict"], rows
