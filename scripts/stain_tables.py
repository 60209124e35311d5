"""The tables of docs/fedsda.md, for `readme_tables.py`: columns and rows."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pandas as pd

Cells = tuple[list[str], list[list[str]]]
_REAL = pathlib.Path("real") / "fedsda"


def pairs(results: pathlib.Path) -> Cells:
    """Methods without and with FedSDA, then the other sides."""
    methods = pd.read_csv(results / "fedsda" / "table2_optimisers.csv")
    sides = pd.read_csv(results / "fedsda" / "table3_alignment.csv")
    rows = [
        [r.method, r.side, _interval(r._asdict()), _interval(r._asdict(), "auprc"),
         f"{r.worst_client} {r.worst_client_auroc:.3f}"]
        for r in pd.concat([methods, sides[~sides.side.isin(("none", "fedsda"))]]).itertuples()
    ]  # fmt: skip
    return ["method", "images", "AUROC", "AUPRC", "worst centre's AUROC"], rows


def pictures(results: pathlib.Path) -> Cells:
    table = pd.read_csv(results / "fedsda" / "table3_alignment.csv")
    table = table[table.method == "fedavg"]
    rows = [
        [row.side, f"{row.ssim:.3f}", f"{row.fid:.0f}", f"{row.kid:.4f}", f"{row.wd:.4f}"] for row in table.itertuples()
    ]
    return ["images", "SSIM", "FID", "KID", "WD"], rows


def published(results: pathlib.Path) -> Cells:
    """What amp-norm and CCST do to pictures as their authors run them."""
    table = pd.read_csv(results / "fedsda_published" / "table3_alignment.csv")
    scores = ("ssim", "grey_ssim", "density_ssim", "wd")
    rows = [[row["side"], *(f"{row[name]:.3f}" for name in scores)] for row in table.to_dict("records")]
    return ["images", "SSIM", "grey SSIM", "map SSIM", "WD"], rows


def stain_models(results: pathlib.Path) -> Cells:
    columns = ["data", "denoiser", "parameters", "rounds × epochs", "FD", "worst client", "between clients", "nearest"]
    rows = []
    for row in pd.read_csv(results / "fedsda" / "table1_diffusion.csv").itertuples():
        numbers = (row.fd, row.worst_client_fd, row.fd_between_clients, row.fd_between_nearest)
        what = [row.data, row.block, f"{row.parameters:,}", f"{row.rounds} × {row.epochs}"]
        rows.append([*what, *(f"{value:.2f}" for value in numbers)])
    return columns, rows


def privacy(results: pathlib.Path) -> Cells:
    """What is told of single patches from what clients send of their stains."""
    rows = []
    for row in pd.read_csv(results / "benchmarks" / "stain_privacy.csv").itertuples():
        degrees = "" if pd.isna(row.reconstruction_degrees) else f"{row.reconstruction_degrees:.1f}°"
        rows.append([row.sent, str(row.members), f"{row.membership_auroc:.2f}", degrees])
    return ["sent", "patches of the client", "membership, AUROC", "the last patch, all others known"], rows


def schedules(results: pathlib.Path) -> Cells:
    """Stain models at 3 × 300 and at as many epochs in more rounds, for each learning rate that was run."""
    scores = ["FD", "worst client", "FD raw", "WD raw", "MMD", "told apart"]
    rows = []
    for folder in sorted((results / "stain_models").glob("rate_*")):
        rate, _, mu = folder.name.removeprefix("rate_").partition("_mu_")
        for row in pd.read_csv(folder / "table1_diffusion.csv").itertuples():
            trained = bool(row.epochs)
            if not trained and row.block in {line[1] for line in rows}:
                continue  # each folder has it
            schedule = f"{row.rounds} × {row.epochs}" if trained else str(row.rounds)
            block = f"{row.block}, μ {mu}" if mu and trained else row.block
            what = [rate if trained else "", block, f"{row.parameters:,}", schedule]
            distances = [f"{value:.2g}" for value in (row.fd, row.worst_client_fd, row.fd_raw, row.wd_raw)]
            rows.append([*what, *distances, f"{row.mmd:.3f}", f"{row.c2st:.2f}"])
    return ["rate", "model", "numbers", "rounds × epochs", *scores], rows


def real(results: pathlib.Path) -> Cells:
    """What sides do to patches of real sources."""
    table = pd.read_csv(results / "fedsda_real" / "table3_alignment.csv")
    before = table.wd[table.side == "none"].iloc[0]
    rows = []
    for row in table.itertuples():
        kept = [f"{value:.3f}" for value in (row.ssim, row.density_ssim, row.spread)]
        rows.append([row.side, f"{row.wd:.3f}", f"{row.wd / before - 1:+.0%}", *kept])
    return ["images", "WD", "to none", "SSIM", "map SSIM", "spread"], rows


def restained(results: pathlib.Path) -> Cells:
    """Sides on real tissue in known stains: all test patches, each centre's, and the gain over plain FedAvg."""
    folder = results / _REAL
    table = pd.read_csv(folder / "table3_alignment.csv")
    centres = pd.read_csv(folder / "by_centre.csv").set_index(["method", "side", "centre"])
    names = list(dict.fromkeys(centres.index.get_level_values("centre")))
    rows = []
    for row in table.itertuples():
        own = [_interval(centres.loc[(row.method, row.side, name)]) for name in names]
        gains = _gain(folder, "AUROC", _called(row.method, row.side))
        rows.append([_shown(row.method, row.side), _interval(row._asdict()), *own, *gains])
    return ["images", "AUROC", *names, "gain over none", "p", "verdict"], rows


def left_out(results: pathlib.Path) -> Cells:
    """The same of centres that took no part in training, each judged on all of its patches."""
    folder = results / "fedsda_left_out"
    table = pd.read_csv(folder / "left_out.csv")
    names = list(dict.fromkeys(table.left_out))
    rows = []
    for side, own in table.groupby("side", sort=False):
        cells = own.set_index("left_out")
        found = [_interval(cells.loc[name]) for name in names]
        gains = _gain(folder, "AUROC, each centre left out", _called("fedavg", side))
        rows.append([side, f"{own.auroc.mean():.3f}", *found, *gains])
    return ["images", "mean", *names, "gain over none", "p", "verdict"], rows


def against_rivals(results: pathlib.Path) -> Cells:
    """FedSDA beside every other way, on the same patches."""
    table = pd.read_csv(results / _REAL / "claims.csv")
    rows = []
    for row in table[(table.method == "fedavg + fedsda") & (table.claim == "AUROC")].itertuples():
        rows.append([row.baseline, f"{row.baseline_score:.3f}", *_tested(row)])
    return ["against", "its AUROC", "FedSDA's gain", "p", "verdict"], rows


_MORE_THAN_A_SIDE = {("fedsam", "amp-norm"): "harmofl", ("silobn", "none"): "silobn"}


def _shown(method: str, side: str) -> str:
    return _MORE_THAN_A_SIDE.get((method, side), side)


def _called(method: str, side: str) -> str:
    """As claims have it."""
    return _MORE_THAN_A_SIDE.get((method, side), f"{method} + {side}")


def _gain(folder: pathlib.Path, claim: str, method: str) -> list[str]:
    table = pd.read_csv(folder / "claims.csv")
    found = table[(table.claim == claim) & (table.method == method) & (table.baseline == "fedavg")]
    return _tested(next(found.itertuples())) if len(found) else [""] * 3


def _tested(row: Any) -> list[str]:
    return [f"{row.gain:+.3f} [{row.gain_low:+.3f}, {row.gain_high:+.3f}]", f"{row.p_holm:.3f}", row.verdict]


def _interval(row: Any, score: str = "auroc") -> str:
    return f"{row[score]:.3f} [{row[f'{score}_low']:.3f}, {row[f'{score}_high']:.3f}]"


TABLES: dict[str, Callable[[pathlib.Path], Cells]] = {
    "fedsda": pairs, "fedsda_pictures": pictures, "stain_models": stain_models, "stain_schedules": schedules,
    "fedsda_real": real, "fedsda_restained": restained, "fedsda_left_out": left_out,
    "fedsda_against": against_rivals, "fedsda_published": published, "stain_privacy": privacy,
}  # fmt: skip
