"""The figures of `results/fedtransfer/`."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tffapps.fedtransfer import METRICS
from tffapps.fedtransfer.data import Pool, images_of, masks_of
from tffapps.fedtransfer.judge import Judge
from tffapps.fedtransfer.tables import records_of_first_precision, scores_of
from tffapps.figures import Canvas, curves, picture

if TYPE_CHECKING:
    from tffapps.fedtransfer.runs import Exchanged, Record

_ROWS = 2  # of a sheet, for each client
_NAMES = {"map": "MAP ↑", "mvi": "MVI ↓", "ari": "ARI ↑"}


def draw_all(
    folder: pathlib.Path,
    pool: Pool,
    records: Sequence[Record],
    exchanged: Sequence[Exchanged],
    judge: Judge | None,
    what_ran: dict[str, str],
) -> None:
    """Without a judge those that show no images."""
    title = f"{what_ran['data']}, {what_ran['model']}, {what_ran['weights']}"
    _scores(folder / "scores.png", records_of_first_precision(scores_of(records)), title)
    named = [
        one.rounds[["round", "validation_loss"]].assign(name=_name(one.method, one.site, one.precision), seed=one.seed)
        for one in records
    ]
    curves(folder / "validation_loss.png", pd.concat(named), "validation_loss", title)
    if judge is None:
        return
    if exchanged:
        _looks(folder / "looks.png", pool, exchanged[0], pool.name)
    _found(folder / "segmentations.png", pool, records, judge, title)


def _name(method: str, site: str, precision: str = "") -> str:
    if method == "separate":
        return f"{method}: {site}"
    return f"{method} {precision}".strip()


def _scores(path: pathlib.Path, scores: pd.DataFrame, title: str) -> None:
    """Figure 6: every method on every test set."""
    tests = list(dict.fromkeys(scores.test))
    with Canvas(path, len(METRICS), len(tests), width=3.6, height=2.2, title=title) as canvas:
        for line, metric in zip(canvas.axes, METRICS):
            for axes, test in zip(line, tests):
                rows = scores[scores.test == test]
                names = [f"{_name(row.method, row.site)}  {row[metric]:.2f}" for _, row in rows.iterrows()]
                spread = np.nan_to_num(rows[f"{metric}_std"].astype(float))
                axes.barh(names, rows[metric], xerr=spread, color=[f"C{place}" for place in range(len(rows))])
                axes.invert_yaxis()
                axes.set_xlabel(_NAMES[metric], fontsize=8)
                axes.tick_params(labelsize=7)
                axes.grid(axis="x", alpha=0.3)
        for axes, test in zip(canvas.axes[0], tests):
            axes.set_title(f"tested on {test}", fontsize=9)


def _looks(path: pathlib.Path, pool: Pool, exchanged: Exchanged, title: str) -> None:
    """Figure 5: label | real | painted in the others' looks. A client sees its own rows of it."""
    made = exchanged.made.table
    rows: list[tuple[str, list[tuple[str, np.ndarray]]]] = []
    for client in pool.clients:
        own = pool.of("train", client)
        for place in np.linspace(0, len(own) - 1, min(_ROWS, len(own))).astype(int):
            tile = own.iloc[[place]]
            pictures = [("label", 255 * (1 - masks_of(tile)[0])), (f"real: {client}", images_of(tile, 3)[0])]
            painted = made[(made.client == client) & (made["mask"] == tile["mask"].iloc[0])]
            pictures += [
                (f"painted: {sender}", images_of(painted.iloc[[at]], 3)[0]) for at, sender in enumerate(painted.sender)
            ]
            rows.append((client, pictures))
    with Canvas(path, len(rows), len(rows[0][1]), width=1.9, height=1.95, title=title) as canvas:
        for line, (_, pictures) in zip(canvas.axes, rows):
            for axes, (name, image) in zip(line, pictures):
                picture(axes, image, name)


def _found(path: pathlib.Path, pool: Pool, records: Sequence[Record], judge: Judge, title: str) -> None:
    """Test tiles and the boundaries that each method finds in them."""
    shown: dict[str, Record] = {}
    for record in records:
        if record.fold == 0:
            shown.setdefault(_name(record.method, record.site), record)
    with Canvas(path, 2 * len(pool.clients), 2 + len(shown), width=1.7, height=1.8, title=title) as canvas:
        rows = pd.concat([pool.of("test", client).iloc[[0, -1]] for client in pool.clients])
        columns: list[tuple[str, Any]] = [("image", images_of(rows, 3)), ("true", ~masks_of(rows).astype(bool))]
        columns += [(name, ~judge.predict(rows, record.best())) for name, record in shown.items()]
        for place, (name, pictures) in enumerate(columns):
            for axes, image in zip(canvas.axes[:, place], pictures):
                picture(axes, image, "")
            canvas.axes[0, place].set_title(name, fontsize=8)
