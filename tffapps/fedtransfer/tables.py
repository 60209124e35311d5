"""The tables of `results/fedtransfer/`, the paper's own values beside ours.

Every run is tested once, with the weights of the round that has the lowest mean validation loss. Means and spreads are
over seeds and folds.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tffapps.fedtransfer import GLOBAL, METRICS, paper
from tffapps.fedtransfer.data import Pool, images_of
from tffapps.results import over_seeds, write_table

if TYPE_CHECKING:
    from tffapps.fedtransfer.runs import Exchanged, Record

ALONE = ("separate", "centralised")
_KEYS = ["method", "site", "precision", "test"]
_COMPARED = 100  # images, pixel by pixel


def write_all(
    folder: pathlib.Path,
    pools: Sequence[Pool],
    records: Sequence[Record],
    exchanged: Sequence[Exchanged],
    seen: Sequence[pd.DataFrame],
    what_ran: dict[str, str],
    *,
    pictures: bool = True,
) -> None:
    """`pictures`: whether images that were painted can be looked at here."""
    scores = scores_of(records)
    first = records_of_first_precision(scores)
    about = {name: what_ran[name] for name in ("data", "profile")}
    write_table(folder / "data.csv", tiles(pools[0]), **about)
    for name, table in (
        ("table2_separate_centralised", _beside(first[first.method.isin(ALONE)])),
        ("table3_federated", _beside(first[~first.method.isin(ALONE)])),
        ("generator_precision", generator_precision(scores, exchanged, pictures)),
        ("bytes", sent(records, exchanged, pools)),
        ("look", looks(seen)),
    ):
        if len(table):
            write_table(folder / f"{name}.csv", table, **what_ran)
    shown = scores[["method", "site", "precision", "test", *METRICS]]
    print(shown.to_string(index=False, float_format="{:.4f}".format))
    print(f"tables and figures: {folder}")


def scores_of(records: Sequence[Record]) -> pd.DataFrame:
    """One row for each method, site, precision and test set."""
    rows = [
        {
            "method": record.method, "site": record.site, "precision": record.precision, "test": test,
            "seed": record.seed, "round": record.chosen, **metrics,
        }
        for record in records
        for test, metrics in record.scores.items()
    ]  # fmt: skip
    table = over_seeds(pd.DataFrame(rows), _KEYS, (*METRICS, "round")).drop(columns="round_std")
    return table.assign(folds=1 + max(record.fold for record in records))


def records_of_first_precision(scores: pd.DataFrame) -> pd.DataFrame:
    """What stands for FedTransfer in the paper's tables: generators as they were sent first."""
    sent_as = [precision for precision in scores.precision if precision]
    return scores[scores.precision.isin(["", *sent_as[:1]])]


def tiles(pool: Pool) -> pd.DataFrame:
    """Table 1: tiles by client and split, and how labels are written."""
    counts = pool.table.groupby(["client", "split"], sort=False).size().unstack(fill_value=0)
    rows = []
    for client in pool.clients:
        coding = pool.codings[client]
        numbers = {split: int(counts.loc[client].get(split, 0)) for split in ("train", "val", "test")}
        rows.append({"client": client, **numbers, "boundary": coding.boundary, "boundary_share": coding.share})
    return pd.DataFrame(rows)


def generator_precision(scores: pd.DataFrame, exchanged: Sequence[Exchanged], pictures: bool) -> pd.DataFrame:
    """What fewer bytes for a generator cost: in the images painted, in grey levels of 255, and on the global test set.

    `ratio` and the differences are to float32, blank where that was not sent; of images also where they are not here.
    """
    rows = []
    for precision in dict.fromkeys(one.precision for one in exchanged):
        sizes = [each.bytes for one in exchanged if one.precision == precision for each in one.made.deliveries]
        found = scores[(scores.precision == precision) & (scores.test == GLOBAL)].iloc[0]
        metrics = {name: found[name] for metric in METRICS for name in (metric, f"{metric}_std")}
        row = {"precision": precision, "bytes": round(float(np.mean(sizes)))}
        difference = _difference(precision, exchanged) if pictures else float("nan")
        rows.append({**row, "pixel_difference": difference, **metrics, "seeds": found.seeds})
    table = pd.DataFrame(rows)
    if not len(table):
        return table
    whole = table[table.precision == "float32"]
    base = whole.iloc[0] if len(whole) else pd.Series({"bytes": np.nan, "map": np.nan})
    ordered = ["precision", "bytes", "ratio", "pixel_difference", "map", "map_std", "map_change"]
    table = table.assign(ratio=table["bytes"] / base["bytes"], map_change=table["map"] - base["map"])
    return table[[*ordered, *(name for name in table.columns if name not in ordered)]]


def _difference(precision: str, exchanged: Sequence[Exchanged]) -> float:
    """Mean absolute difference of painted images to those of float32, over some of the first seed and fold."""
    by_precision = {one.precision: one.made.table for one in reversed(exchanged)}
    if "float32" not in by_precision:
        return float("nan")
    one, other = (images_of(by_precision[name][:_COMPARED], 3).astype(np.int16) for name in (precision, "float32"))
    return float(np.abs(one - other).mean())


def sent(records: Sequence[Record], exchanged: Sequence[Exchanged], pools: Sequence[Pool]) -> pd.DataFrame:
    """Bytes that cross the network in one run of each method, all clients together."""
    rows: list[dict[str, Any]] = []
    for record in records:
        if (record.seed, record.fold) != (records[0].seed, records[0].fold) or record.method == "separate":
            continue
        row: dict[str, Any] = {"method": record.method, "precision": record.precision, "rounds": len(record.rounds)}
        down, up = (int(record.rounds[name].sum()) for name in ("bytes_down", "bytes_up"))
        if record.method == "centralised":
            train = pools[record.fold].of("train")
            images = sum(pathlib.Path(path).stat().st_size for path in (*train.path, *train["mask"]))
            rows.append({**row, "weights_down": 0, "weights_up": 0, "images_up": images})
            continue
        for one in exchanged:
            if (one.precision, one.seed, one.fold) == (record.precision, record.seed, record.fold):
                sizes = {each.sender: each.bytes for each in one.made.deliveries}
                row["generators_up"] = sum(sizes.values())
                row["generators_down"] = sum(each.bytes for each in one.made.deliveries)
        rows.append({**row, "weights_down": down, "weights_up": up})
    if any(record.method == "separate" for record in records):
        rows.insert(0, {"method": "separate", "precision": "", "weights_down": 0, "weights_up": 0})
    moved = ["images_up", "generators_up", "generators_down", "weights_up", "weights_down"]
    table = pd.DataFrame(rows).reindex(columns=["method", "precision", "rounds", *moved])
    table[moved] = table[moved].fillna(0).astype("int64")
    return table.assign(total=table[moved].sum(axis=1)).astype({"rounds": "Int64"})


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


def _beside(rows: pd.DataFrame) -> pd.DataFrame:
    found = [
        paper.VALUES.get((method, site), {}).get(test)
        for method, site, test in zip(rows.method, rows.site, rows.test)
    ]  # fmt: skip
    columns = {
        f"paper_{metric}": [np.nan if value is None else value[place] for value in found]
        for place, metric in enumerate(METRICS)
    }
    return rows.assign(**columns).reset_index(drop=True)
