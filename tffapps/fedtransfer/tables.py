"""The tables of `results/fedtransfer/`, the paper's own values beside ours.

A run is judged by the weights of the round that has the lowest mean validation loss. Scores are means over tiles;
intervals are by micrograph, spreads over seeds and folds.
"""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Record, over_seeds, write_table
from tffapps.app import PAPER
from tffapps.data.compare import is_own
from tffapps.evaluation import evidence, stored
from tffapps.evaluation.evidence import COLUMNS, SUFFIXES, Entry
from tffapps.evaluation.metrics import mean_of
from tffapps.fedtransfer import GLOBAL, METRICS, PAPERS_METRICS, SMALLER_IS_BETTER, UNTRAINED, paper, untrained
from tffapps.fedtransfer.claims import CLAIMS
from tffapps.fedtransfer.data import Tiles, images_of
from tffapps.fedtransfer.exchange import Made
from tffapps.study import TRAINED

ALONE = ("separate", "centralised")
_KEYS = ["method", "site", "precision", "test"]
_MOVED = ["images_up", "generators_up", "generators_down", "weights_up", "weights_down"]
_NO_VALUES = (np.nan,) * len(PAPERS_METRICS)
MEASURED = {
    name: mean_of(position, larger_is_better=name not in SMALLER_IS_BETTER) for position, name in enumerate(METRICS)
}
_COMPARED = 100  # images, pixel by pixel


@dataclasses.dataclass(frozen=True)
class Results:
    """What tables and figures are made of."""

    folds: list[Tiles]
    records: list[Record]
    made: list[Made]
    what_ran: dict[str, str]

    @functools.cached_property
    def entries(self) -> list[Entry]:
        clients = self.folds[0].clients
        return [*entries_of(self.records, clients), *untrained_entries(self.folds, self.seeds, clients)]

    @functools.cached_property
    def scores(self) -> pd.DataFrame:
        return scores_of(self.entries, self.records)

    @property
    def seeds(self) -> list[int]:
        return sorted({record["seed"] for record in self.records})

    @property
    def papers_own(self) -> bool:
        """Whether the paper's values are of the same data and setting."""
        return self.what_ran["profile"] == PAPER and is_own(self.folds[0].pool, "fedtransfer")


def write_all(folder: pathlib.Path, results: Results, seen: Sequence[pd.DataFrame]) -> None:
    """Writes those that have rows; `seen` as `look.seen` has it, of every seed and fold."""
    scores, what_ran = results.scores, results.what_ran
    first = of_first_precision(scores)
    alone = first[first.method.isin([*ALONE, *UNTRAINED])]
    write_table(folder / "data.csv", tile_counts(results.folds[0]), data=what_ran["data"], profile=what_ran["profile"])
    for name, table in (
        ("claims", evidence.claims(folds_as_seeds(results.entries), CLAIMS, MEASURED)),
        (
            "table2_separate_centralised",
            beside_paper(alone, results.papers_own),
        ),
        ("table3_federated", beside_paper(first[~first.method.isin(ALONE)], results.papers_own)),
        ("generator_precision", generator_precision(scores, results)),
        ("bytes", sent(results)),
        ("look", looks(seen)),
    ):
        if len(table):
            write_table(folder / f"{name}.csv", table, **what_ran)
    shown = scores[["method", "site", "precision", "test", *METRICS]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def entries_of(records: Sequence[Record], clients: Sequence[str]) -> list[Entry]:
    """Each run on every client's test tiles, and on all of them; label `first`: stands for its method in tables."""
    precisions = [record["precision"] for record in records if record["precision"]]
    entries = []
    for record in records:
        labels = {**record.labels, "test": GLOBAL, "first": record["precision"] in ("", *precisions[:1])}
        trained = int(record.summary.get(TRAINED, 0))
        whole = evidence.measured_entry(labels, record.folder, METRICS, trained=trained, model=stored.CHOSEN)
        entries += by_client(whole, clients)
    return entries


def untrained_entries(folds: Sequence[Tiles], seeds: Sequence[int], clients: Sequence[str]) -> list[Entry]:
    """What no network is needed for, where the tiles are here; the same for every seed."""
    entries = list[Entry]()
    for method, tiles, seed in itertools.product(UNTRAINED, folds, seeds):
        if not tiles.pool.at_sites:
            labels = {"method": method, "site": "", "precision": "", "seed": seed, "fold": tiles.fold}
            table = untrained.measured(tiles, method)
            whole = evidence.entry_of({**labels, "test": GLOBAL, "first": True}, table, METRICS)
            entries += by_client(whole, clients)
    return entries


def folds_as_seeds(entries: Sequence[Entry]) -> list[Entry]:
    """Folds are tested with the same tiles, as seeds are: for paired tests fold 2 of seed 1 is the seed 102."""
    return [
        dataclasses.replace(entry, run=dataclasses.replace(entry.run, seed=100 * entry.run.seed + entry.labels["fold"]))
        if entry.labels["fold"]
        else entry
        for entry in entries
    ]


def by_client(whole: Entry, clients: Sequence[str]) -> list[Entry]:
    """Those of each client's tiles, then that of all."""
    parts = [(client, evidence.of_client(whole, client)) for client in clients]
    return [
        *(dataclasses.replace(part, labels={**whole.labels, "test": client}) for client, part in parts if part),
        whole,
    ]


def scores_of(entries: Sequence[Entry], records: Sequence[Record]) -> pd.DataFrame:
    """One row for each method, site, precision and test set; `round`: the mean of those that validation chose."""
    table = evidence.table(entries, _KEYS, MEASURED)
    chosen = {key: [record.summary["round"] for record in records if _key(record) == key] for key in map(_key, records)}
    rounds = [np.mean(chosen.get(key, np.nan)) for key in table[_KEYS[:3]].itertuples(index=False, name=None)]
    return table.assign(round=rounds, folds=1 + max(record["fold"] for record in records))


def _key(record: Record) -> tuple[str, str, str]:
    return record["method"], record["site"], record["precision"]


def of_first_precision(scores: pd.DataFrame) -> pd.DataFrame:
    """What stands for FedTransfer in the paper's tables: generators as they were sent first."""
    sent_as = [precision for precision in scores.precision if precision]
    return scores[scores.precision.isin(["", *sent_as[:1]])]


def tile_counts(tiles: Tiles) -> pd.DataFrame:
    """Table 1: tiles by client and split, and how labels are written."""
    counts = tiles.pool.table.groupby(["client", "split"], sort=False).size().unstack(fill_value=0)
    rows = []
    for client, coding in tiles.codings.items():
        numbers = {split: int(counts.loc[client].get(split, 0)) for split in ("train", "val", "test")}
        rows.append({"client": client, **numbers, "boundary": coding.boundary, "boundary_share": coding.share})
    return pd.DataFrame(rows)


def generator_precision(scores: pd.DataFrame, results: Results) -> pd.DataFrame:
    """What fewer bytes for a generator cost: in the images painted, in grey levels of 255, and on the global test set.

    `ratio` and the differences are to float32, blank where that was not sent; of images also where they are not here.
    """
    rows = []
    for precision in dict.fromkeys(made.precision for made in results.made):
        sizes = [each.bytes for made in results.made if made.precision == precision for each in made.deliveries]
        score = scores[(scores.precision == precision) & (scores.test == GLOBAL)].iloc[0]
        metrics = {f"{metric}{suffix}": score[f"{metric}{suffix}"] for metric in METRICS for suffix in SUFFIXES}
        row = {"precision": precision, "bytes": round(float(np.mean(sizes)))}
        rows.append({**row, "pixel_difference": _difference(precision, results), **metrics, **score[list(COLUMNS)]})
    table = pd.DataFrame(rows)
    if not len(table):
        return table
    whole = table[table.precision == "float32"]
    base = whole.iloc[0] if len(whole) else pd.Series({"bytes": np.nan, "map": np.nan})
    ordered = [
        "precision",
        "bytes",
        "ratio",
        "pixel_difference",
        *(f"map{suffix}" for suffix in SUFFIXES),
        "map_change",
    ]
    table = table.assign(ratio=table["bytes"] / base["bytes"], map_change=table["map"] - base["map"])
    return table[[*ordered, *(name for name in table.columns if name not in ordered)]]


def _difference(precision: str, results: Results) -> float:
    """Mean absolute difference of painted images to those of float32, over some of the first seed and fold."""
    rows = {made.precision: made.table[:_COMPARED] for made in reversed(results.made)}
    if "float32" not in rows or results.folds[0].pool.at_sites:
        return float("nan")
    images = images_of(rows[precision], 3).astype(np.int16)
    return float(np.abs(images - images_of(rows["float32"], 3)).mean())


def sent(results: Results) -> pd.DataFrame:
    """Bytes that cross the network in one run of each method, all clients together."""
    first = results.records[0]
    rows: list[dict[str, Any]] = []
    for record in results.records:
        if (record["seed"], record["fold"]) == (first["seed"], first["fold"]) and record["method"] != "separate":
            if record["precision"] and not _generators(record, results):  # an earlier command's: not counted any more
                continue
            labels = {"method": record["method"], "precision": record["precision"], "rounds": len(record.rounds)}
            rows.append({**labels, **_moved(record, results)})
    if any(record["method"] == "separate" for record in results.records):
        rows.insert(0, {"method": "separate", "precision": ""})
    table = pd.DataFrame(rows).reindex(columns=["method", "precision", "rounds", *_MOVED])
    table[_MOVED] = table[_MOVED].fillna(0).astype("int64")
    return table.assign(total=table[_MOVED].sum(axis=1)).astype({"rounds": "Int64"})


def _moved(record: Record, results: Results) -> dict[str, int]:
    """Those of _MOVED that a run has any of."""
    if record["method"] == "centralised":
        training = results.folds[record["fold"]].part("train")
        return {"images_up": sum(pathlib.Path(path).stat().st_size for path in (*training.path, *training["mask"]))}
    moved = {f"weights_{way}": int(record.rounds[f"bytes_{way}"].sum()) for way in ("up", "down")}
    for made in _generators(record, results):
        moved["generators_up"] = sum({each.sender: each.bytes for each in made.deliveries}.values())
        moved["generators_down"] = sum(each.bytes for each in made.deliveries)
    return moved


def _generators(record: Record, results: Results) -> list[Made]:
    """What was sent for a run; nothing is known of what an earlier command sent."""
    of_run = record["precision"], record["seed"], record["fold"]
    return [made for made in results.made if (made.precision, made.seed, made.fold) == of_run]


def looks(seen: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Share of images that a classifier of real tiles calls the client's whose look they should have.

    `count` is of all seeds and folds together, each of which has a classifier of its own.
    """
    if not seen:
        return pd.DataFrame()
    rows, keys = pd.concat(seen), ["images", "look"]
    table = over_seeds(rows, keys, ["share"])
    table.insert(len(keys), "count", list(rows.groupby(keys, sort=False)["count"].sum()))
    return table


def beside_paper(rows: pd.DataFrame, own: bool) -> pd.DataFrame:
    """The paper's own values in columns of their own, blank where it has none, if they are of the same data."""
    if not own:
        return rows.reset_index(drop=True)
    values = [
        paper.VALUES.get((method, site), {}).get(test, _NO_VALUES)
        for method, site, test in zip(rows.method, rows.site, rows.test)
    ]
    columns = {f"paper_{metric}": [row[number] for row in values] for number, metric in enumerate(PAPERS_METRICS)}
    return rows.assign(**columns).reset_index(drop=True)
