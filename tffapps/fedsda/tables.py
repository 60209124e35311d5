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
from tffapps.data.manifest import natural_key
from tffapps.evaluation import evidence
from tffapps.evaluation.evidence import Entry, of_client
from tffapps.evaluation.metrics import NAMED, auprc_of
from tffapps.fedsda import DRIFT_ROBUST, HARMOFL, METRICS, SILOBN, paper
from tffapps.fedsda.claims import compared
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.diffusion import StainModel
from tffapps.fedsda.quality import PictureQuality
from tffapps.fedsda.stain_mixtures import StainStatistics
from tffapps.fedsda.stain_vectors import DISTANCES

_UNSAID = (None,) * 4
TUMOUR = ("tumour", "tumor", "cancer", "metastasis", "positive")  # what the positive class may be called


@dataclasses.dataclass(frozen=True)
class Results:
    """What a command has found: its tables and figures are made of it."""

    pool: Pool
    fold: Fold  # the whole federation
    records: Sequence[Record]  # of classifiers, with the labels method, side, fold and seed
    separation: Sequence[Mapping[str, Any]]  # a row for each client
    stain_models: Sequence[StainModel | StainStatistics]  # the one that is used first; none without the side fedsda
    between: Sequence[float]  # distances between clients' stains, every two
    stains: Sequence[np.ndarray] | None  # each client's matrices, where they may be seen here
    quality: PictureQuality | None  # of the sides, where there are several and their images are here
    what_ran: Mapping[str, str]  # data, profile, weights, model, vgg


def write_all(folder: pathlib.Path, results: Results) -> None:
    """Every table that there is something for; prints the scores."""
    what_ran = results.what_ran
    data = {"data": what_ran["data"]}
    without_vgg = {name: value for name, value in what_ran.items() if name != "vgg"}
    own = what_ran["profile"] == PAPER and is_own(results.pool, "fedsda")
    write_table(folder / "data.csv", wilds.distribution(results.pool.table), **data)
    write_table(folder / "separation.csv", pd.DataFrame(results.separation), **data)
    if results.stain_models:
        about = {**data, "profile": what_ran["profile"]}
        stains = _shown(table1(results.stain_models, results.between), own)
        write_table(folder / "table1_diffusion.csv", stains, **about)
        trained = denoisers(results.stain_models)
        if trained:
            write_table(folder / "rounds_vs_epochs.csv", rounds_vs_epochs(trained), **about)
    if not results.records:  # --quality-only
        if results.quality:
            write_table(folder / "table3_alignment.csv", _shown(pictures(results.quality), own), **what_ran)
        print(f"tables and figures: {folder}")
        return
    entries = entries_of(results.records)
    scores = scores_of(entries, results.records)
    everyone = scores[scores.fold == FEDERATION].drop(columns="fold")
    left_out = scores[scores.fold != FEDERATION].rename(columns={"fold": "left_out"})
    centres = by_centre(entries, {"auroc": NAMED["auroc"]})
    if len(centres):
        write_table(folder / "by_centre.csv", centres, **without_vgg)
    write_table(folder / "claims.csv", compared(entries), **without_vgg)
    write_table(folder / "table2_optimisers.csv", _shown(table2(everyone), own), **without_vgg)
    if results.quality:
        write_table(folder / "table3_alignment.csv", _shown(table3(everyone, results.quality), own), **what_ran)
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
    table = evidence.table(entries, ["fold", "method", "side"], metrics_of(entries), worst="auroc")
    return table.assign(positive=_positive(entries) or "every class in turn", rounds=len(records[0].rounds))


def metrics_of(entries: Sequence[Entry]) -> dict[str, Any]:
    metrics: dict[str, Any] = {name: NAMED[name] for name in METRICS}
    positive = _positive(entries)
    if positive:
        metrics["auprc"] = auprc_of(entries[0].classes.index(positive))
    return metrics


def _positive(entries: Sequence[Entry]) -> str:
    """The class that is tumour; "" where none is called so."""
    return next((label for label in entries[0].classes if label.lower() in TUMOUR), "")


def by_centre(entries: Sequence[Entry], metrics: Mapping[str, Any]) -> pd.DataFrame:
    """Scores on each centre's test images; nothing where only one centre has any, whose scores are all there is."""
    whole = [entry for entry in entries if entry.labels["fold"] == FEDERATION]
    centres = sorted({str(name) for entry in whole for name in entry.clients}, key=natural_key)
    parts = {centre: [part for entry in whole if (part := of_client(entry, centre))] for centre in centres}
    tables = [evidence.table(part, ["method", "side"], metrics).assign(centre=centre) for centre, part in parts.items()]
    return pd.concat(tables, ignore_index=True) if len(tables) > 1 else pd.DataFrame()


def _shown(table: pd.DataFrame, own: bool) -> pd.DataFrame:
    """The paper's values stand beside runs on the paper's own data alone."""
    return table if own else table[[name for name in table.columns if not name.startswith("paper_")]]


def table1(stain_models: Sequence[StainModel | StainStatistics], between: Sequence[float]) -> pd.DataFrame:
    """Stain models, each in its schedules.

    fd and wd are in units of the federation's standard deviations, fd_raw and wd_raw in the paper's; mmd and c2st, the
    share of stains that a classifier tells right from drawn ones, are about 0 and 0.5 where nothing tells them apart.
    """
    rows = []
    for model in stain_models:
        denoiser = isinstance(model, StainModel)
        scores = {name: model.scores.get(name) for name in DISTANCES}
        row = {
            "block": model.block, "hidden": stain_diffusion.WIDTH if denoiser else None,
            "heads": stain_diffusion.HEADS if model.block in ("transformer", DRIFT_ROBUST) else None,
            "parameters": model.parameters, "clients": model.clients,
            "rounds": model.rounds, "epochs": model.epochs,
            "fd": scores.pop("fd"), "worst_client_fd": model.scores.get("worst_fd"), **scores,
            "fd_between_clients": float(np.mean(between)) if len(between) else None,
            "fd_between_nearest": float(np.min(between)) if len(between) else None,
            "paper_fd": paper.FD.get(model.block),
        }  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows).astype({"hidden": "Int64", "heads": "Int64"})


def denoisers(stain_models: Sequence[StainModel | StainStatistics]) -> list[StainModel]:
    """Those that were trained."""
    return [model for model in stain_models if isinstance(model, StainModel)]


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
    """Alignments under FedAvg (or whatever else was run), and rivals that are more than one, with what they do to
    pictures."""
    first = "fedavg" if (scores.method == "fedavg").any() else scores.method.iloc[0]
    rivals = np.array([pair in (HARMOFL, SILOBN) for pair in zip(scores.method, scores.side)], bool)
    table = _with_areas(scores[(scores.method == first) | rivals])
    return table.merge(pictures(quality), on="side", how="left")


def pictures(quality: PictureQuality) -> pd.DataFrame:
    """What each side does to pictures."""
    table = pd.DataFrame({"side": list(quality.scores)})
    for column, name in enumerate(("ssim", "fid", "kid", "wd")):
        table[name] = [scores[name] for scores in quality.scores.values()]
        table[f"paper_{name}"] = [paper.QUALITY.get(side, _UNSAID)[column] for side in table.side]
    for name in ("density_ssim", "grey_ssim", "spread"):
        table[name] = [scores.get(name) for scores in quality.scores.values()]
    return table.assign(features=quality.features)


def _with_areas(table: pd.DataFrame) -> pd.DataFrame:
    for column, name in enumerate(("paper_c17_auroc", "paper_a22_auroc", "paper_a22_auprc")):
        areas = {pair: values[column] for pair, values in paper.AREAS.items()}
        table = with_paper(table, areas, ["method", "side"], name)
    return table
