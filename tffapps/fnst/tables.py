"""The tables of `results/fnst/`, the paper's own values beside ours.

Every run has two rows. "best AUC" is the round with the highest AUC on the test set, as the paper reports it: chosen
with the test set in view, it flatters. "last" is the last round, chosen by nobody.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Pool, Record, over_seeds, write_table
from tffapps.data import chaoyang
from tffapps.fnst import AUGMENTED, METRICS, Augmentation, paper
from tffapps.fnst.attack import Attacked
from tffapps.fnst.exchange import Made

BEST, LAST = "best AUC", "last"
_KEYS = ["method", "site", "rare", "augmentation", "made", "chosen"]


@dataclasses.dataclass(frozen=True)
class Findings:
    """All that the tables and figures of a command are made of."""

    federation: Pool  # of the first seed and the first number of rare images
    records: Sequence[Record]
    made: Mapping[tuple[str, int], Made]  # by augmentation and seed
    attacked: Attacked | None
    what_ran: Mapping[str, str]  # data, profile, weights, model, vgg


def write_all(folder: pathlib.Path, findings: Findings) -> None:
    """Writes every table that there are rows for, and shows the scores."""
    pool, scores = findings.federation, scores_of(findings.records)
    everything = findings.what_ran
    data_only = {name: everything[name] for name in ("data", "profile")}
    without_model = {**data_only, "vgg": everything["vgg"]}
    used = pool.table[pool.table.split != "val"]
    attack = findings.attacked.table if findings.attacked else pd.DataFrame()
    for name, table, what_ran in (
        ("data", chaoyang.distribution(used, pool.classes), data_only),
        ("table1_centralised", table1(scores), everything),
        ("table2_single_and_federated", table2(scores), everything),
        ("table3_fnst", table3(scores), everything),
        ("table4_gains", table4(scores), everything),
        ("f1_per_class", f1_per_class(findings.records, pool.classes), everything),
        ("exchange", exchange(findings.made), everything),
        ("gram_attack", attack, without_model),
    ):
        if len(table):
            write_table(folder / f"{name}.csv", table, **what_ran)
    shown = scores[["method", "site", "rare", "augmentation", "chosen", *METRICS]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def scores_of(records: Sequence[Record]) -> pd.DataFrame:
    """One row for each method, site, setting and way of choosing: means over seeds."""
    rows = []
    for record in records:
        areas = record.rounds.auroc.fillna(-1)
        for chosen, row in ((BEST, record.rounds.loc[areas.idxmax()]), (LAST, record.rounds.iloc[-1])):
            rows.append({**_labels(record), "chosen": chosen, "round": row["round"], **row[list(METRICS)]})
    table = over_seeds(pd.DataFrame(rows), _KEYS, (*METRICS, "round"))
    return table.drop(columns="round_std").astype({"rare": "Int64", "made": "Int64"})


def table1(scores: pd.DataFrame) -> pd.DataFrame:
    """All images in one place."""
    rows = scores[scores.method == "centralised"].drop(columns=["rare", "augmentation", "made"])
    return _beside(rows, [paper.CENTRALISED] * len(rows))


def table2(scores: pd.DataFrame) -> pd.DataFrame:
    """Each client alone, and their federation."""
    rows = scores[scores.method.isin(("separate", "fedavg"))].drop(columns=["augmentation", "made"])
    return _beside(rows, [_site(site, rare) for site, rare in zip(rows.site, rows.rare)])


def table3(scores: pd.DataFrame) -> pd.DataFrame:
    """Federations with images made, and with images repeated."""
    rows = scores[scores.method.isin(AUGMENTED)].drop(columns="site")
    values = [
        paper.FNST.get(augmentation) if method == "fnst" else None
        for method, augmentation in zip(rows.method, rows.augmentation)
    ]
    return _beside(rows, values)


def table4(scores: pd.DataFrame) -> pd.DataFrame:
    """Gains over the federation without images made, and over the best client alone, metric by metric.

    The paper's columns are worked out from its Tables 2 and 3; its own Table 4 differs from them in places.
    """
    rows: list[dict[str, Any]] = []
    for _, row in scores[scores.method.isin(AUGMENTED)].iterrows():
        setting = scores.rare.isna() if pd.isna(row.rare) else scores.rare.eq(row.rare).fillna(False)
        same = scores[setting & (scores.chosen == row.chosen)]
        bases = {"fedavg": same[same.method == "fedavg"], "best_alone": same[same.method == "separate"]}
        gain: dict[str, Any] = {"method": row.method, "augmentation": row.augmentation, "chosen": row.chosen}
        for base, compared in bases.items():
            for index, metric in enumerate(METRICS):
                gain[f"{metric}_over_{base}"] = row[metric] - compared[metric].max() if len(compared) else None
                if row.method == "fnst":
                    gain[f"paper_{metric}_over_{base}"] = _paper_gain(row.augmentation, base, index)
        rows.append(gain)
    return pd.DataFrame(rows)


def f1_per_class(records: Sequence[Record], classes: Sequence[str]) -> pd.DataFrame:
    """Figures 7 and 8: the F1 of every class over the rounds of federations, means over seeds."""
    columns = [f"f1_{label}" for label in classes]
    parts = [
        record.rounds[["round", "macro_f1", *columns]].assign(**_labels(record))
        for record in records
        if record["method"] in ("fedavg", *AUGMENTED)
    ]
    if not parts:
        return pd.DataFrame()
    keys = ["method", "rare", "augmentation", "round"]
    return over_seeds(pd.concat(parts, ignore_index=True), keys, ["macro_f1", *columns]).astype({"rare": "Int64"})


def exchange(made: Mapping[tuple[str, int], Made]) -> pd.DataFrame:
    """What crossed the server before the federations: one row for each file."""
    rows = [
        {"augmentation": name, "seed": seed, **delivery._asdict()}
        for (name, seed), images in made.items()
        for delivery in images.deliveries
    ]
    return pd.DataFrame(rows).drop(columns="file") if rows else pd.DataFrame()


def _labels(record: Record) -> dict[str, Any]:
    """Of a record, blank in tables where a number has no meaning."""
    return {**record.labels, "rare": record["rare"] or None, "made": record["made"] or None}


def _site(site: str, rare: Any) -> tuple[float, ...] | None:
    names = (*chaoyang.CLIENTS, "federation")
    if pd.isna(rare) or rare not in paper.SITES or site not in names:
        return None
    return paper.SITES[rare][names.index(site)]


def _paper_gain(augmentation: str, base: str, index: int) -> float | None:
    sites = paper.SITES.get(Augmentation.parse(augmentation).contents)
    if augmentation not in paper.FNST or sites is None:
        return None
    values = [site[index] for site in sites]  # the federation's is the last
    return paper.FNST[augmentation][index] - (values[-1] if base == "fedavg" else max(values[:-1]))


def _beside(rows: pd.DataFrame, values: Sequence[tuple[float, ...] | None]) -> pd.DataFrame:
    """The paper's values beside ours: it has best-AUC rows only."""
    shown = [value if chosen == BEST else None for value, chosen in zip(values, rows.chosen)]
    columns = {
        f"paper_{metric}": [np.nan if value is None else value[index] for value in shown]
        for index, metric in enumerate(METRICS)
    }
    return rows.assign(**columns).reset_index(drop=True)
