"""The tables of `results/plfl/` from the runs' records, the thesis's values beside ours."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Pool, Record, Split, over_seeds
from tffapps.data import oai
from tffapps.evaluation import classification, evidence
from tffapps.evaluation.evidence import Claim, Entry
from tffapps.evaluation.metrics import NAMED, calibration_error, kappa, recall_of
from tffapps.plfl import AFTER_GOLD, MAIN_METRICS, METRICS, SPLITS, division, paper, poisoning
from tffapps.plfl.claims import CLAIMS

KAPPA = kappa()  # grades have an order


def all_of(
    records: Sequence[Record], pool: Pool, divided: Sequence[Split], seeds: Sequence[int], own: bool
) -> dict[str, pd.DataFrame]:
    """Every table by its name; those of which there is nothing to say are empty.

    `own`: the images are the thesis's, so that its values may stand beside ours.
    """
    clean = [record for record in records if not record["poison"]]
    kinds = list(dict.fromkeys(SPLITS[record["method"]] for record in clean))
    entries = [record.entry(framework=record["method"]) for record in records]
    scores = scores_of([entry for entry in entries if not entry.labels["poison"]], clean)
    return {
        "claims": claims_of(entries),
        "comparison": scores,
        "rounds": by_round(clean, own),
        "best": best(scores),
        "pseudo_labels": _shown(pseudo_labels(clean, pool.classes, division.clients(pool)), own),
        "times": _shown(times(clean), own),
        "splits": _shown(pd.concat([splits(each, kinds, seeds) for each in divided]), own),
        "confusion": confusion(clean, pool.classes),
        "poisoning": poisoning_table(entries),
    }


def shown(scores: pd.DataFrame) -> str:
    """What the command prints at its end."""
    columns = [
        "framework",
        "model",
        "rounds",
        "accuracy",
        "macro_f1",
        "macro_f1_low",
        "macro_f1_high",
        "auroc",
        "images",
    ]
    return scores[columns].to_string(index=False, float_format="{:.4f}".format)


def _shown(table: pd.DataFrame, own: bool) -> pd.DataFrame:
    return table if own else table[[name for name in table.columns if not str(name).startswith("paper_")]]


def scores_of(entries: Sequence[Entry], records: Sequence[Record]) -> pd.DataFrame:
    """The server's test images at the end of each framework: after the last round that a seed played."""
    table = evidence.table(entries, ["framework", "model"], metrics_of(entries[0].classes))
    played = pd.DataFrame([{**_labels(record), "rounds": len(record.rounds)} for record in records])
    rounds = played.groupby(["framework", "model"], sort=False)["rounds"].mean().reset_index()
    return table.merge(rounds, on=["framework", "model"])


def claims_of(entries: Sequence[Entry], declared: Sequence[Claim] = CLAIMS) -> pd.DataFrame:
    return evidence.claims(entries, declared, {"quadratic_kappa": KAPPA})


def metrics_of(classes: Sequence[str]) -> evidence.Metrics:
    """Of the server's test images; the last class, the worst grade, is the one that nobody should miss."""
    found: dict[str, Any] = {name: NAMED[name] for name in METRICS}
    found |= {"quadratic_kappa": KAPPA, f"recall_{classes[-1]}": recall_of(len(classes) - 1)}
    return {**found, "ece": calibration_error()}


def by_round(records: Sequence[Record], own: bool) -> pd.DataFrame:
    """Scores by framework, model, round and site, as the runs wrote them down: the server's test images, the clients'
    own.

    Rounds are counted from 0, as in the thesis; `initial` is the server's own training. A client's model is the one
    it sent, tested on its own test images. A client of plfl has no labels, so `labels` says what its model is held
    against: the pseudo-labels of the images it held out (as in the thesis, and they come from a model much like
    the one that is tested), or the true labels of all its images, which it never saw.
    """
    rows = [row for record in records for row in _comparison_rows(record)]
    by = ["framework", "model", "round", "site", "labels"]
    table = over_seeds(pd.DataFrame(rows), by, METRICS)
    if not own:
        return table
    keys = list(table[by[:4]].itertuples(index=False, name=None))
    as_in_thesis = table.labels != "true, all images"
    for number, metric in enumerate(paper.SCORES):
        table[f"paper_{metric}"] = [paper.RESULTS.get(key, (None,) * 4)[number] for key in keys]
    table["paper_macro_f1"] = [paper.MACRO_F1.get(key) for key in keys]
    others = [paper.CONTRADICTIONS.get(key, ()) for key in keys]
    table["paper_says_also"] = ["; ".join(f"{value:g} ({where})" for where, value in other) or None for other in others]
    papers = [f"paper_{metric}" for metric in (*paper.SCORES, "macro_f1")]
    table[papers] = table[papers].astype(float).where(as_in_thesis, axis=0)
    return table


def studies(scores: pd.DataFrame, shapes: Mapping[str, int]) -> pd.DataFrame:
    """Table 5.29 and Figure 5.13: other studies as the thesis gives them, what it says of PLFL, and ours.

    `shapes`: the parameters of each of our networks.
    """
    rows = [
        {"study": study, "network": network, "million_parameters": millions, "accuracy": accuracy}
        for study, network, millions, accuracy in paper.STUDIES
    ]
    for row in scores[scores.framework == "plfl"].to_dict("records"):
        measured = {name: row[name] for name in ("accuracy", "accuracy_low", "accuracy_high")}
        millions = round(shapes[row["model"]] / 1e6, 1)
        rows.append({"study": "here: plfl", "network": row["model"], "million_parameters": millions, **measured})
    return pd.DataFrame(rows)


def best(scores: pd.DataFrame) -> pd.DataFrame:
    """Table 5.27: of each framework the network that did best. Chosen by test accuracy, as the thesis does."""
    return scores.loc[scores.groupby("framework", sort=False).accuracy.idxmax()]


def pseudo_labels(records: Sequence[Record], classes: list[str], clients: Sequence[str] = oai.CLIENTS) -> pd.DataFrame:
    """How many images a client labelled in a round, and how many labels were right (which no client can know)."""
    rows = [
        {
            **_labels(record), "round": int(row["round"]) - 1, "client": row["client"], "class": label,
            "kept": row[f"kept_{code}"], "right": row[f"right_{code}"],
        }
        for record in records
        if "kept_0" in record.clients
        for row in _every_client(record, clients)
        for code, label in enumerate(classes)
    ]  # fmt: skip
    if not rows:
        return pd.DataFrame()
    by = ["framework", "model", "round", "client", "class"]
    table = over_seeds(pd.DataFrame(rows), by, ["kept", "right"])
    table["share_right"] = table.right / table.kept.where(table.kept > 0)
    table["paper_kept"] = [
        paper.PSEUDO_LABELS.get((model, number, client), (None,) * len(classes))[classes.index(label)]
        if framework == "plfl" and len(classes) == 3
        else None
        for framework, model, number, client, label in table[by].itertuples(index=False, name=None)
    ]
    return table


def _every_client(record: Record, clients: Sequence[str]) -> list[dict[Any, Any]]:
    """The reports of all rounds; a client that kept nothing is left out of a round and has kept 0."""
    keys = pd.MultiIndex.from_product([record.rounds["round"], clients], names=["round", "client"])
    found = record.clients.set_index(["round", "client"]).reindex(keys, fill_value=0)
    return found.reset_index().to_dict("records")


def times(records: Sequence[Record]) -> pd.DataFrame:
    """Minutes of a run: all of its rounds, and training alone. plfl and plfl+ include the server's first training."""
    rows = []
    gold = {start(record): record.rounds for record in records if record["method"] == "gold"}
    for record in records:
        rounds = record.rounds
        if record["method"] in AFTER_GOLD:
            first = gold.get(start(record))
            if first is None:  # of an earlier command, and cannot be read
                continue
            rounds = pd.concat([rounds, first])
        minutes = {"wall_minutes": rounds.seconds.sum() / 60, "training_minutes": rounds.training_seconds.sum() / 60}
        rows.append({**_labels(record), **minutes})
    if not rows:
        return pd.DataFrame()
    table = over_seeds(pd.DataFrame(rows), ["framework", "model"], ["wall_minutes", "training_minutes"])
    keys = table[["framework", "model"]].itertuples(index=False, name=None)
    return table.assign(paper_minutes=[paper.MINUTES.get(key) for key in keys])


def splits(divided: Split, kinds: Sequence[str], seeds: Sequence[int]) -> pd.DataFrame:
    """Tables 4.4 and 4.5: images by framework, site, part and class, for each seed."""
    tables, pool = [], divided.pool
    fold = {"fold": divided.name} if divided.name else {}
    for kind in kinds:
        for seed in seeds:
            parts = oai.distribution(division.split(pool, kind, seed, held_out=bool(divided.name)))
            parts = parts.rename(columns={"client": "site", "split": "part"})
            counts = [*pool.classes, "images"]
            whole = parts.groupby("site", sort=False)[counts].sum().reset_index().assign(part="all")
            as_in_thesis = len(pool.classes) == 3 and not pool.given
            for code, label in enumerate(pool.classes if as_in_thesis else ()):
                whole[f"paper_{label}"] = [paper.SPLITS[kind, site][code] for site in whole.site]
            tables.append(pd.concat([parts, whole]).assign(split=kind, **fold, seed=seed))
    table = pd.concat(tables, ignore_index=True)
    first = ["split", *fold, "seed"]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def confusion(records: Sequence[Record], classes: list[str]) -> pd.DataFrame:
    """The server's test images after the last round, summed over seeds; with precision, recall and F1 of each class."""
    sums: dict[tuple[str, str], np.ndarray] = {}
    for record in records:
        key = record["method"], record["model"]
        sums[key] = sums.get(key, 0) + _counts(record.rounds.iloc[-1], "test", len(classes))
    rows = []
    for (framework, model), counts in sums.items():
        report = classification.per_class(*classification.examples_of(counts), classes)
        for code, label in enumerate(classes):
            predicted = {f"predicted_{other}": counts[code, column] for column, other in enumerate(classes)}
            scores = report.loc[label].to_dict()
            rows.append({"framework": framework, "model": model, "true": label, **predicted, **scores})
    return pd.DataFrame(rows)


def poisoning_table(entries: Sequence[Entry]) -> pd.DataFrame:
    """The server's scores at the end against the share of the first client's data that is spoilt."""
    told = []
    for entry in entries:
        method, share = entry.labels["method"], entry.labels["poison"]
        if method in poisoning.KINDS:
            labels = {**entry.labels, "what": poisoning.KINDS[method], "share": share}
            told.append(dataclasses.replace(entry, labels=labels))
    spoilt = {_place(entry) for entry in told if entry.labels["share"]}
    both = [entry for entry in told if _place(entry) in spoilt]  # the same with and without poison
    by = ["framework", "model", "what", "share"]
    return evidence.table(both, by, MAIN_METRICS).sort_values([*by[:2], "share"]) if both else pd.DataFrame()


def _place(entry: Entry) -> tuple[Any, ...]:
    return tuple(entry.labels.get(name) for name in ("method", "model", "split", "seed"))


def start(record: Record) -> tuple[str, str, int]:
    """What tells apart the gold runs that others begin with."""
    return record["model"], record.labels.get("split", ""), record["seed"]


def _labels(record: Record) -> dict[str, Any]:
    return {"framework": record["method"], "model": record["model"], "seed": record["seed"]}


def _comparison_rows(record: Record) -> list[dict[str, Any]]:
    rows = []
    gold = record["method"] == "gold"
    for row in record.rounds.to_dict("records"):
        who = {**_labels(record), "round": paper.INITIAL if gold else str(int(row["round"]) - 1)}
        reports = record.clients[record.clients["round"] == row["round"]].to_dict("records")
        for report in () if gold else reports:
            for labels, scores in _client_scores(report).items():
                rows.append({**who, "site": report["client"], "labels": labels, **scores})
        rows.append({**who, "site": oai.SERVER, "labels": "true", **{metric: row[metric] for metric in METRICS}})
    return rows


def _client_scores(report: dict[Any, Any]) -> dict[str, dict[str, float]]:
    """What a client's model is held against → its scores."""
    against = {"test": "pseudo" if "truth_0_0" in report else "true", "truth": "true, all images"}
    scores = {}
    for prefix, labels in against.items():
        counts = _counts(report, prefix, sum(name.startswith(f"{prefix}_0_") for name in report))
        if counts.sum():  # plfl+ holds nothing out
            measured = classification.scores_of_counts(counts)
            scores[labels] = {metric: measured[metric] for metric in METRICS}
    return scores


def _counts(row: Any, prefix: str, classes: int) -> np.ndarray:
    return np.array([[int(row[f"{prefix}_{i}_{j}"]) for j in range(classes)] for i in range(classes)])
