"""The tables of `results/fnst/`, the paper's own values beside ours where its own data were used.

Scores are of the last round, chosen by nobody. (The paper reports the round with the highest AUC on the test set.)
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Pool, Record, over_seeds, write_table
from tffapps.app import PAPER
from tffapps.data import chaoyang
from tffapps.data.compare import is_own
from tffapps.evaluation import evidence
from tffapps.evaluation.evidence import Entry
from tffapps.fnst import AUGMENTED, METRICS, PLAYED, Augmentation, comparison, paper
from tffapps.fnst.attack import Attacked
from tffapps.fnst.claims import CLAIMS, GAINS
from tffapps.fnst.exchange import Made

_KEYS = ["method", "site", "rare", "augmentation", "made"]


@dataclasses.dataclass(frozen=True)
class Findings:
    """All that the tables and figures of a command are made of."""

    pool: Pool
    federation: Pool  # of the first seed and the first number of rare images
    records: Sequence[Record]
    made: Mapping[tuple[str, str, int, str], Made]  # by split, augmentation, seed and part of a method
    attacked: Attacked | None
    what_ran: Mapping[str, str]  # data, profile, weights, model, vgg
    methods: Sequence[str] = ()  # of the command
    realism: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    lab: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)


def write_all(folder: pathlib.Path, findings: Findings) -> None:
    """Writes every table that there are rows for, and shows the scores."""
    pool, entries, everything = findings.federation, entries_of(findings.records), findings.what_ran
    scores = scores_of(entries)
    own = everything["profile"] == PAPER and is_own(findings.pool, "fnst")
    data_only = {name: everything[name] for name in ("data", "profile")}
    without_model = {**data_only, "vgg": everything["vgg"]}
    used = pool.table[pool.table.split != "val"]
    attack = findings.attacked.table if findings.attacked else pd.DataFrame()
    rows = comparison.rows_of(findings.records, entries, findings.methods)
    others = any(row.entry.labels["method"] not in PLAYED for row in rows)
    compared = [row.entry for row in rows] if others else entries
    for name, table, what_ran in (
        ("data", chaoyang.distribution(used, pool.classes), data_only),
        ("claims", evidence.claims(compared, [*CLAIMS, *comparison.rivals(compared)]), everything),
        ("comparison", comparison.table(rows) if others else pd.DataFrame(), everything),
        ("table1_centralised", table1(scores, own), everything),
        ("table2_single_and_federated", table2(scores, own), everything),
        ("table3_fnst", table3(scores, own), everything),
        ("table4_gains", table4(entries, own), everything),
        ("f1_per_class", f1_per_class(findings.records, pool.classes), everything),
        ("exchange", exchange(findings.made), everything),
        ("gram_attack", attack, without_model),
        ("gram_lab", findings.lab, data_only),
        ("realism", findings.realism, without_model),
    ):
        if len(table):
            write_table(folder / f"{name}.csv", table, **what_ran)
    shown = scores[["method", "site", "rare", "augmentation", *METRICS, "macro_f1_low", "macro_f1_high", "images"]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def entries_of(records: Sequence[Record]) -> list[Entry]:
    """A row is of one augmentation; how many images are made may differ from split to split, and it says the most."""
    made: dict[tuple[Any, ...], int] = {}
    for record in records:
        made[_setting(record)] = max(record["made"], made.get(_setting(record), 0))
    return [record.entry(rare=record["rare"] or None, made=made[_setting(record)] or None) for record in records]


def _setting(record: Record) -> tuple[Any, ...]:
    return tuple(record[label] for label in ("method", "site", "rare", "augmentation"))


def scores_of(entries: Sequence[Entry]) -> pd.DataFrame:
    """One row for each method, site and setting."""
    table = evidence.table(entries, _KEYS, METRICS, worst="macro_f1")
    return table.astype({"rare": "Int64", "made": "Int64"})


def table1(scores: pd.DataFrame, own: bool = False) -> pd.DataFrame:
    """All images in one place; `own`: they are the paper's."""
    rows = scores[scores.method == "centralised"].drop(columns=["rare", "augmentation", "made"])
    return _beside(rows, [paper.CENTRALISED] * len(rows), own)


def table2(scores: pd.DataFrame, own: bool = False) -> pd.DataFrame:
    """Each client alone, and their federation."""
    rows = scores[(scores.method != "centralised") & (scores.augmentation == "")]
    rows = rows.drop(columns=["augmentation", "made"])
    return _beside(rows, [_site(site, rare) for site, rare in zip(rows.site, rows.rare)], own)


def table3(scores: pd.DataFrame, own: bool = False) -> pd.DataFrame:
    """Federations with images made, and with images repeated."""
    rows = scores[scores.augmentation != ""].drop(columns="site")
    values = [
        paper.FNST.get(augmentation) if method == "fnst" else None
        for method, augmentation in zip(rows.method, rows.augmentation)
    ]
    return _beside(rows, values, own)


def table4(entries: Sequence[Entry], own: bool = False) -> pd.DataFrame:
    """Gains over the federation without images made, and over the best client alone, metric by metric.

    The paper's column is worked out from its Tables 2 and 3; its own Table 4 differs from them in places.
    """
    table = evidence.claims(entries, GAINS).drop(columns=["claim", "role"], errors="ignore")
    if not own or not len(table):
        return table
    gains = []
    for method, baseline, metric in table[["method", "baseline", "metric"]].itertuples(index=False, name=None):
        name, augmentation = method.split()
        base = "fedavg" if baseline == "fedavg" else "best_alone"
        gains.append(_paper_gain(augmentation, base, METRICS.index(metric)) if name == "fnst" else None)
    return table.assign(paper_gain=gains)


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


def exchange(made: Mapping[tuple[str, str, int, str], Made]) -> pd.DataFrame:
    """What crossed the server before the federations: one row for each file."""
    rows = [
        {
            **({"split": split} if split else {}), "method": part, "augmentation": name, "seed": seed,
            **delivery._asdict(),
        }
        for (split, name, seed, part), images in made.items()
        for delivery in images.deliveries
    ]  # fmt: skip
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


def _beside(rows: pd.DataFrame, values: Sequence[tuple[float, ...] | None], own: bool) -> pd.DataFrame:
    """The paper's values beside ours, if they are of its own data."""
    if not own:
        return rows.reset_index(drop=True)
    columns = {
        f"paper_{metric}": [np.nan if value is None else value[index] for value in values]
        for index, metric in enumerate(METRICS)
    }
    return rows.assign(**columns).reset_index(drop=True)
