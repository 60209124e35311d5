"""The tables of `results/fedsda/`, the paper's own values beside ours."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from models import stain_diffusion
from tffapps import Pool, Record, with_paper, write_table
from tffapps.app import PAPER
from tffapps.data import wilds
from tffapps.data.compare import is_own
from tffapps.evaluation import evidence
from tffapps.evaluation.evidence import Entry
from tffapps.evaluation.metrics import NAMED, auprc_of
from tffapps.fedsda import METRICS, paper
from tffapps.fedsda.claims import CLAIMS
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.diffusion import StainModel
from tffapps.fedsda.quality import PictureQuality

TUMOUR = ("tumour", "tumor", "cancer", "metastasis", "positive")  # what the positive class may be called


@dataclasses.dataclass(frozen=True)
class Results:
    """What a command has found: its tables and figures are made of it."""

    pool: Pool
    fold: Fold  # the whole federation
    records: Sequence[Record]  # of classifiers, with the labels method, side, fold and seed
    separation: Sequence[Mapping[str, Any]]  # a row for each client
    stain_models: Sequence[StainModel]  # the one that is used first; none without the side fedsda
    between: Sequence[float]  # distances between clients' stains, every two
    stains: Sequence[np.ndarray] | None  # each client's matrices, where they may be seen here
    quality: PictureQuality | None  # of the sides, where there are several and their images are here
    what_ran: Mapping[str, str]  # data, profile, weights, model, vgg


def write_all(folder: pathlib.Path, results: Results) -> None:
    """Every table that there is something for; prints the scores."""
    what_ran = results.what_ran
    data = {"data": what_ran["data"]}
    without_vgg = {name: value for name, value in what_ran.items() if name != "vgg"}
    entries = entries_of(results.records)
    scores = scores_of(entries, results.records)
    everyone = scores[scores.fold == FEDERATION].drop(columns="fold")
    left_out = scores[scores.fold != FEDERATION].rename(columns={"fold": "left_out"})
    write_table(folder / "claims.csv", evidence.claims(entries, CLAIMS), **without_vgg)
    write_table(folder / "data.csv", wilds.distribution(results.pool.table), **data)
    write_table(folder / "separation.csv", pd.DataFrame(results.separation), **data)
    own = what_ran["profile"] == PAPER and is_own(results.pool, "fedsda")
    write_table(folder / "table2_optimisers.csv", _shown(table2(everyone), own), **without_vgg)
    if results.quality:
        write_table(folder / "table3_alignment.csv", _shown(table3(everyone, results.quality), own), **what_ran)
    if results.stain_models:
        about = {**data, "profile": what_ran["profile"]}
        stains = _shown(table1(results.stain_models, results.between), own)
        write_table(folder / "table1_diffusion.csv", stains, **about)
        write_table(folder / "rounds_vs_epochs.csv", rounds_vs_epochs(results.stain_models), **about)
    if len(left_out):
        write_table(folder / "left_out.csv", left_out, **without_vgg)
    shown = everyone[["method", "side", "auroc", "auroc_low", "auroc_high", "auprc", "accuracy", "images", "seeds"]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def entries_of(records: Sequence[Record]) -> list[Entry]:
    """Of classifiers; label `left_out`: the source that none was trained with."""
    return [
        record.entry(left_out="" if record["fold"] == FEDERATION else record["fold"], left=record["fold"] != FEDERATION)
        for record in records
    ]


def scores_of(entries: Sequence[Entry], records: Sequence[Record]) -> pd.DataFrame:
    """The last round's. AUPRC is that of the tumour, where a class is called so, else a mean over classes."""
    metrics: dict[str, Any] = {name: NAMED[name] for name in METRICS}
    positive = next((label for label in entries[0].classes if label.lower() in TUMOUR), "")
    if positive:
        metrics["auprc"] = auprc_of(entries[0].classes.index(positive))
    table = evidence.table(entries, ["fold", "method", "side"], metrics, worst="auroc")
    return table.assign(positive=positive or "every class in turn", rounds=len(records[0].rounds))


def _shown(table: pd.DataFrame, own: bool) -> pd.DataFrame:
    """The paper's values stand beside runs on the paper's own data alone."""
    return table if own else table[[name for name in table.columns if not name.startswith("paper_")]]


def table1(stain_models: Sequence[StainModel], between: Sequence[float]) -> pd.DataFrame:
    """Denoisers. Distances are in units of the federation's standard deviations; the paper does not say its unit."""
    rows: dict[str, dict[str, Any]] = {}
    for model in stain_models:
        block, last = model.record["block"], model.record.rounds.iloc[-1]
        row = {
            "block": block, "hidden": stain_diffusion.WIDTH,
            "heads": stain_diffusion.HEADS if block == "transformer" else None,
            "parameters": model.denoiser.count_params(), "clients": model.clients,
            "rounds": int(last["round"]), "epochs": model.record["epochs"],
            "fd": last.fd, "worst_client_fd": last.worst_fd, "wd": last.wd,
            "fd_between_clients": float(np.mean(between)) if len(between) else None,
            "fd_between_nearest": float(np.min(between)) if len(between) else None,
            "paper_fd": paper.FD[block],
        }  # fmt: skip
        rows.setdefault(block, row)  # later ones are other schedules of the same
    return pd.DataFrame(rows.values()).astype({"heads": "Int64"})


def rounds_vs_epochs(stain_models: Sequence[StainModel]) -> pd.DataFrame:
    """Figure 7: where the distance was measured along each schedule of the first block."""
    first = stain_models[0].record["block"]
    parts = [
        model.record.rounds[["round", "fd", "wd"]].dropna().assign(local_epochs=model.record["epochs"])
        for model in stain_models
        if model.record["block"] == first
    ]
    table = pd.concat(parts, ignore_index=True)
    table["epochs_in_all"] = table["round"] * table.local_epochs
    return table[["local_epochs", "round", "epochs_in_all", "fd", "wd"]]


def table2(scores: pd.DataFrame) -> pd.DataFrame:
    """Methods before and after FedSDA."""
    return _with_areas(scores[scores.side.isin(("none", "fedsda"))])


def table3(scores: pd.DataFrame, quality: PictureQuality) -> pd.DataFrame:
    """Alignments under FedAvg (or whatever else was run), with what they do to pictures."""
    first = "fedavg" if (scores.method == "fedavg").any() else scores.method.iloc[0]
    table = _with_areas(scores[scores.method == first])
    for column, name in enumerate(("ssim", "fid", "kid", "wd")):
        table[name] = [quality.scores[side][name] for side in table.side]
        table[f"paper_{name}"] = [paper.QUALITY[side][column] for side in table.side]
    return table.assign(features=quality.features)


def _with_areas(table: pd.DataFrame) -> pd.DataFrame:
    for column, name in enumerate(("paper_c17_auroc", "paper_a22_auroc", "paper_a22_auprc")):
        areas = {pair: values[column] for pair, values in paper.AREAS.items()}
        table = with_paper(table, areas, ["method", "side"], name)
    return table
