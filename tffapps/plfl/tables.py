"""The tables of `results/plfl/` from the runs' records, the thesis's values beside ours."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tffapps.data import oai
from tffapps.evaluation import classification
from tffapps.plfl import AFTER_GOLD, MAIN_METRICS, METRICS, poisoning, settings_of, thesis
from tffapps.plfl.data import Pool
from tffapps.results import over_seeds, write_table

if TYPE_CHECKING:
    from tffapps.plfl.runs import Record


def comparison(records: Sequence[Record]) -> pd.DataFrame:
    """Scores by framework, model, round and site: the server's test images, the clients' own.

    Rounds are counted from 0, as in the thesis; `initial` is the server's own training. A client's model is the one
    it sent, tested on its own test images. A client of plfl has no labels, so `labels` says what its model is held
    against: the pseudo-labels of the images it held out (as in the thesis, and they come from a model much like
    the one that is tested), or the true labels of all its images, which it never saw.
    """
    rows = [row for record in records for row in _comparison_rows(record)]
    by = ["framework", "model", "round", "site", "labels"]
    table = over_seeds(pd.DataFrame(rows), by, METRICS)
    keys = list(table[by[:4]].itertuples(index=False, name=None))
    as_in_thesis = table.labels != "true, all images"
    for place, metric in enumerate(thesis.SCORES):
        table[f"paper_{metric}"] = [thesis.RESULTS.get(key, (None,) * 4)[place] for key in keys]
    table["paper_macro_f1"] = [thesis.MACRO_F1.get(key) for key in keys]
    papers = [column for column in table.columns if column.startswith("paper_")]
    table[papers] = table[papers].astype(float).where(as_in_thesis, axis=0)
    return table


def last_rounds(records: Sequence[Record]) -> pd.DataFrame:
    """The server's model at the end of each framework: after the last round that a seed played."""
    rows = []
    for record in records:
        scores = record.rounds.iloc[-1][list(METRICS)].to_dict()
        who = {"framework": record.framework, "model": record.model, "seed": record.seed}
        rows.append({**who, "rounds": len(record.rounds), **scores})
    return over_seeds(pd.DataFrame(rows), ["framework", "model"], [*METRICS, "rounds"]).drop(columns="rounds_std")


def best(last: pd.DataFrame) -> pd.DataFrame:
    """Table 5.27: of each framework the network that did best. Chosen by test accuracy, as the thesis does."""
    return last.loc[last.groupby("framework", sort=False).accuracy.idxmax()]


def pseudo_labels(records: Sequence[Record], classes: list[str], clients: Sequence[str] = oai.CLIENTS) -> pd.DataFrame:
    """How many images a client labelled in a round, and how many labels were right (which no client can know)."""
    rows = [
        {
            "framework": record.framework, "model": record.model, "round": int(row["round"]) - 1,
            "client": row["client"], "class": label, "seed": record.seed,
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
        thesis.PSEUDO_LABELS.get((model, number, client), (None,) * len(classes))[classes.index(label)]
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


def models(
    wanted: Sequence[tuple[str, int, int, str, bool]], classes: int = 3, earlier: pathlib.Path | None = None
) -> pd.DataFrame:
    """Tables 4.9 and 4.10: the thesis's networks at 224 × 224 × 3 with a frozen base, then `wanted` ones.

    `wanted` are (network, size, channels, head, frozen). Counting takes seconds a network: rows that an `earlier`
    table has are taken from it.
    """
    keys = dict.fromkeys([*((name, 224, 3, "flatten256", True, 3) for name in thesis.PARAMETERS)])
    keys.update(dict.fromkeys((*key, classes) for key in wanted))
    known: list[Any] = pd.read_csv(earlier).to_dict("records") if earlier is not None and earlier.exists() else []
    rows: list[Any] = []
    for key in keys:
        identity = _identity(*key)
        found = [row for row in known if {name: row.get(name) for name in identity} == identity]
        rows.append(found[0] if found else {**identity, **_sizes(*key)})
    # Whole numbers also where a row has none: as floats they would be written with six digits.
    whole = [f"{paper}{kind}" for paper in ("", "paper_") for kind in _KINDS]
    return pd.DataFrame(rows).astype(dict.fromkeys(whole, "Int64"))


def times(records: Sequence[Record]) -> pd.DataFrame:
    """Minutes of a run: all of its rounds, and training alone. plfl and plfl+ include the server's first training."""
    rows = []
    gold = {(record.model, record.seed): record.rounds for record in records if record.framework == "gold"}
    for record in records:
        parts = [record.rounds]
        if record.framework in AFTER_GOLD:
            parts.append(gold[record.model, record.seed])
        rounds = pd.concat(parts)
        minutes = {"wall_minutes": rounds.seconds.sum() / 60, "training_minutes": rounds.training_seconds.sum() / 60}
        rows.append({"framework": record.framework, "model": record.model, "seed": record.seed, **minutes})
    table = over_seeds(pd.DataFrame(rows), ["framework", "model"], ["wall_minutes", "training_minutes"])
    keys = table[["framework", "model"]].itertuples(index=False, name=None)
    return table.assign(paper_minutes=[thesis.MINUTES.get(key) for key in keys])


def splits(pool: Pool, kinds: Sequence[str], seeds: Sequence[int]) -> pd.DataFrame:
    """Tables 4.4 and 4.5: images by framework, site, part and class, for each seed."""
    tables = []
    for kind in kinds:
        for seed in seeds:
            parts = oai.distribution(pool.split(kind, seed)).rename(columns={"client": "site", "split": "part"})
            counts = [*pool.classes, "images"]
            whole = parts.groupby("site", sort=False)[counts].sum().reset_index().assign(part="all")
            as_in_thesis = len(pool.classes) == 3 and not pool.given
            for code, label in enumerate(pool.classes if as_in_thesis else ()):
                whole[f"paper_{label}"] = [thesis.SPLITS[kind, site][code] for site in whole.site]
            tables.append(pd.concat([parts, whole]).assign(split=kind, seed=seed))
    table = pd.concat(tables, ignore_index=True)
    return table[["split", "seed", *(name for name in table.columns if name not in ("split", "seed"))]]


def confusion(records: Sequence[Record], classes: list[str]) -> pd.DataFrame:
    """The server's test images after the last round, summed over seeds; with precision, recall and F1 of each class."""
    rows = []
    for (framework, model), counts in confusion_counts(records, classes).items():
        report = classification.per_class(*classification.examples_of(counts), classes)
        for code, label in enumerate(classes):
            found = {f"predicted_{other}": counts[code, place] for place, other in enumerate(classes)}
            rows.append({"framework": framework, "model": model, "true": label, **found, **report.loc[label].to_dict()})
    return pd.DataFrame(rows)


def confusion_counts(records: Sequence[Record], classes: list[str]) -> dict[tuple[str, str], np.ndarray]:
    sums: dict[tuple[str, str], np.ndarray] = {}
    for record in records:
        counts = _counts(record.rounds.iloc[-1], "test", len(classes))
        key = record.framework, record.model
        sums[key] = sums.get(key, np.zeros_like(counts)) + counts
    return sums


def poisoning_table(records: Sequence[Record]) -> pd.DataFrame:
    """The server's scores after the last round against the share of the first client's data that is spoilt."""
    rows: list[dict[str, Any]] = [
        {
            "framework": record.framework, "model": record.model, "what": poisoning.KINDS[record.framework],
            "share": record.poison, "seed": record.seed,
            **{metric: record.rounds.iloc[-1][metric] for metric in MAIN_METRICS},
        }
        for record in records
        if record.framework in poisoning.KINDS
    ]  # fmt: skip
    seeds = {row["seed"] for row in rows if row["share"]}
    rows = [row for row in rows if row["seed"] in seeds]  # the same with and without poison
    if not rows:
        return pd.DataFrame()
    by = ["framework", "model", "what", "share"]
    return over_seeds(pd.DataFrame(rows).sort_values([*by[:2], "share"]), by, MAIN_METRICS)


def write_all(
    folder: pathlib.Path,
    records: Sequence[Record],
    pool: Pool,
    values: dict[str, Any],
    what_ran: dict[str, str],
    frozen: bool,
) -> None:
    from tffapps.plfl import figures
    from tffapps.plfl.frameworks import SPLITS

    settings = settings_of(values)
    clean = [record for record in records if not record.poison]
    last = last_rounds(clean)
    kinds = list(dict.fromkeys(SPLITS[record.framework] for record in clean))
    found = {
        "comparison": comparison(clean),
        "best": best(last),
        "pseudo_labels": pseudo_labels(clean, pool.classes, pool.clients),
        "times": times(clean),
        "splits": splits(pool, kinds, values["seeds"]),
        "confusion": confusion(clean, pool.classes),
        "poisoning": poisoning_table(records),
    }
    for name, table in found.items():
        if len(table):
            write_table(folder / f"{name}.csv", table, **what_ran)
    wanted = [(name, settings.size, settings.channels, settings.head, frozen) for name in settings.models]
    earlier = None if values["fresh"] else folder / "models.csv"
    write_table(folder / "models.csv", models(wanted, len(pool.classes), earlier))
    figures.draw_all(folder, records, pool, found, what_ran)
    shown = last[["framework", "model", "rounds", "accuracy", "f1", "macro_f1", "auroc", "seeds"]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def _comparison_rows(record: Record) -> list[dict[str, Any]]:
    rows = []
    who = {"framework": record.framework, "model": record.model, "seed": record.seed}
    last = thesis.INITIAL if record.framework == "gold" else None
    for row in record.rounds.to_dict("records"):
        number = last or str(int(row["round"]) - 1)
        scores = {metric: row[metric] for metric in METRICS}
        own = record.clients[record.clients["round"] == row["round"]].to_dict("records")
        for client in own if record.framework != "gold" else ():
            against = "pseudo" if "truth_0_0" in client else "true"
            for prefix, labels in (("test", against), ("truth", "true, all images")):
                if f"{prefix}_0_0" in client:
                    counts = _counts(client, prefix, _class_count(client, prefix))
                    if not counts.sum():  # plfl+ holds nothing out
                        continue
                    found = classification.scores_of_counts(counts)
                    measured = {metric: found[metric] for metric in METRICS}
                    rows.append({**who, "round": number, "site": client["client"], "labels": labels, **measured})
        rows.append({**who, "round": number, "site": oai.SERVER, "labels": "true", **scores})
    return rows


def _class_count(row: Any, prefix: str) -> int:
    return sum(name.startswith(f"{prefix}_0_") for name in row)


def _counts(row: Any, prefix: str, classes: int) -> np.ndarray:
    return np.array([[int(row[f"{prefix}_{i}_{j}"]) for j in range(classes)] for i in range(classes)])


_KINDS = ("trainable", "non_trainable", "total")


def _identity(name: str, size: int, channels: int, head: str, frozen: bool, classes: int) -> dict[str, Any]:
    base = "frozen" if frozen else "trained"
    shape = {"size": size, "channels": channels, "head": head, "base": base, "classes": classes}
    return {"model": name, **shape, "keras": metadata.version("keras")}


def _sizes(name: str, size: int, channels: int, head: str, frozen: bool, classes: int) -> dict[str, Any]:
    from models import classifiers

    network = classifiers.build(
        name, input_shape=(size, size, channels), classes=classes, head=head, trainable_base=not frozen
    )
    trained, whole = (sum(int(np.prod(w.shape)) for w in ws) for ws in (network.trainable_weights, network.weights))
    row: dict[str, Any] = {}
    for kind, count in zip(_KINDS, (trained, whole - trained, whole)):
        row |= {kind: count, f"{kind}_mb": round(count * 4 / 2**20, 2)}
    if (size, head, frozen, classes) == (224, "flatten256", True, 3) and name in thesis.PARAMETERS:
        for place, kind in enumerate(_KINDS):
            row |= {f"paper_{kind}": thesis.PARAMETERS[name][place], f"paper_{kind}_mb": thesis.MEGABYTES[name][place]}
    return row
