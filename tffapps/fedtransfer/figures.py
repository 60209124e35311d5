"""The figures of `results/fedtransfer/`."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tffapps import Canvas, Record, curves, picture
from tffapps.fedtransfer.data import Tiles, images_of, masks_of
from tffapps.fedtransfer.evaluator import LOSS, Weights
from tffapps.fedtransfer.exchange import Made
from tffapps.fedtransfer.tables import Results, of_first_precision

_ROWS = 2  # of a sheet, for each client
_NAMES = {"grown_map": "MAP, grown ↑", "map": "MAP ↑", "mvi": "MVI ↓", "boundary_f1": "boundary F1 ↑"}


def draw_all(folder: pathlib.Path, results: Results) -> None:
    """Those that show no images."""
    title = _title(results)
    _scores(folder / "scores.png", of_first_precision(results.scores), title)
    named = [
        record.rounds[["round", LOSS]].assign(
            name=_name(record["method"], record["site"], record["precision"]), seed=record["seed"]
        )
        for record in results.records
    ]
    curves(folder / "validation_loss.png", pd.concat(named), LOSS, title)


def draw_images(
    folder: pathlib.Path, results: Results, boundaries: Callable[[Tiles, str, pd.DataFrame, Weights], np.ndarray]
) -> None:
    """Those that show images; `boundaries` of a client's rows are what is found with a U-Net of these weights."""
    tiles = results.folds[0]
    if results.made:
        _looks(folder / "looks.png", tiles, results.made[0])
    shown: dict[str, Record] = {}
    for record in results.records:
        if record["fold"] == 0:
            shown.setdefault(_name(record["method"], record["site"]), record)
    ends = {client: tiles.part("test", client).iloc[[0, -1]] for client in tiles.clients}
    rows = pd.concat(list(ends.values()))
    columns: dict[str, Any] = {"image": images_of(rows, 3), "true": ~masks_of(rows).astype(bool)}
    for name, record in shown.items():
        weights = record.weights()
        columns[name] = ~np.concatenate([boundaries(tiles, client, own, weights) for client, own in ends.items()])
    _segmentations(folder / "segmentations.png", columns, _title(results))


def _title(results: Results) -> str:
    return ", ".join(results.what_ran[name] for name in ("data", "model", "weights"))


def _name(method: str, site: str, precision: str = "") -> str:
    if method == "separate":
        return f"{method}: {site}"
    return f"{method} {precision}".strip()


def _scores(path: pathlib.Path, scores: pd.DataFrame, title: str) -> None:
    """Figure 6: every method on every test set."""
    tests = list(dict.fromkeys(scores.test))
    with Canvas(path, len(_NAMES), len(tests), width=3.6, height=2.2, title=title) as canvas:
        for line, metric in zip(canvas.axes, _NAMES):
            for axes, test in zip(line, tests):
                rows = scores[scores.test == test]
                names = [f"{_name(row.method, row.site)}  {row[metric]:.2f}" for _, row in rows.iterrows()]
                around = [rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]]
                spread = np.nan_to_num(np.array(around, float)).clip(0)
                axes.barh(names, rows[metric], xerr=spread, color=[f"C{number}" for number in range(len(rows))])
                axes.invert_yaxis()
                axes.set_xlabel(_NAMES[metric], fontsize=8)
                axes.tick_params(labelsize=7)
                axes.grid(axis="x", alpha=0.3)
        for axes, test in zip(canvas.axes[0], tests):
            axes.set_title(f"tested on {test}", fontsize=9)


def _looks(path: pathlib.Path, tiles: Tiles, made: Made) -> None:
    """Figure 5: label | real | painted in the others' looks. A client sees its own rows of it."""
    sheet: list[list[tuple[str, np.ndarray]]] = []
    for client in tiles.clients:
        rows = tiles.part("train", client)
        for number in np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).astype(int):
            tile = rows.iloc[[number]]
            pictures = [("label", 255 * (1 - masks_of(tile)[0])), (f"real: {client}", images_of(tile, 3)[0])]
            painted = made.table[(made.table.client == client) & (made.table["mask"] == tile["mask"].iloc[0])]
            pictures += [(f"painted: {sender}", image) for sender, image in zip(painted.sender, images_of(painted, 3))]
            sheet.append(pictures)
    with Canvas(path, len(sheet), len(sheet[0]), width=1.9, height=1.95, title=tiles.pool.name) as canvas:
        for line, pictures in zip(canvas.axes, sheet):
            for axes, (name, image) in zip(line, pictures):
                picture(axes, image, name)


def _segmentations(path: pathlib.Path, columns: dict[str, Any], title: str) -> None:
    """Test tiles and the boundaries that each method finds in them."""
    with Canvas(path, len(columns["image"]), len(columns), width=1.7, height=1.8, title=title) as canvas:
        for number, (name, pictures) in enumerate(columns.items()):
            for axes, image in zip(canvas.axes[:, number], pictures):
                picture(axes, image, "")
            canvas.axes[0, number].set_title(name, fontsize=8)
