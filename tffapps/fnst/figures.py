"""The figures of `results/fnst/`."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tffapps.data import chaoyang
from tffapps.figures import Canvas, picture
from tffapps.fnst import AUGMENTED, Augmentation
from tffapps.fnst.attack import Attacked
from tffapps.fnst.data import Pool, Sites
from tffapps.fnst.exchange import Made
from tffapps.fnst.styler import Styler
from tffapps.fnst.tables import BEST, LAST, f1_per_class, scores_of

if TYPE_CHECKING:
    from tffapps.fnst.runs import Record

_ROWS = 6  # of the sheet of styles


def draw_all(
    folder: pathlib.Path,
    pool: Pool,
    sites: Sites,
    records: Sequence[Record],
    attacked: Attacked | None,
    what_ran: dict[str, str],
) -> None:
    title = f"{what_ran['data']}, {what_ran['model']}, {what_ran['weights']}"
    _classes(folder / "classes.png", pool, sites)
    _scores(folder / "macro_f1.png", scores_of(records), title)
    curves = f1_per_class(records, pool.classes)
    if len(curves):
        _curves(folder / "f1_per_class.png", curves, pool.classes, title)
    if attacked is not None:
        _attack(folder / "gram_attack.png", attacked, what_ran["vgg"])


def _classes(path: pathlib.Path, pool: Pool, sites: Sites) -> None:
    """Figure 4: training images by class, in one place and by client."""
    counts = chaoyang.distribution(sites.train, pool.classes).set_index("client")[pool.classes]
    panels = {"all data": counts.sum().to_frame().T, **{client: counts.loc[[client]] for client in sites.clients}}
    with Canvas(path, 1, len(panels), width=2.2, height=2.8, title=f"training images, {pool.name}") as canvas:
        for axes, (name, row) in zip(canvas.axes[0], panels.items()):
            values = row.to_numpy()[0]
            bars = axes.bar(range(len(values)), values, color=[f"C{place}" for place in range(len(values))])
            axes.bar_label(bars, fontsize=7)
            axes.margins(y=0.12)
            axes.set_title(name, fontsize=9)
            axes.set_xticks(range(len(values)), pool.classes, rotation=60, ha="right", fontsize=7)
            axes.tick_params(axis="y", labelsize=7)


def _scores(path: pathlib.Path, scores: pd.DataFrame, title: str) -> None:
    """Figures 5 and 6: macro F1 of everything that ran, the best client for all that train alone."""
    bars: list[tuple[str, pd.DataFrame]] = []
    for keys, rows in scores.groupby(["method", "rare", "augmentation"], sort=False, dropna=False):
        method, rare, augmentation = (value if isinstance(value, str) or not pd.isna(value) else "" for value in keys)
        name = " ".join(str(part) for part in (method, augmentation or (f"rare {rare}" if rare else "")) if part)
        bars.append((name.replace("separate", "best alone"), rows))
    places = np.arange(len(bars))
    with Canvas(path, width=max(5.0, 0.8 * len(bars) + 2), height=3.6, title=title) as canvas:
        axes = canvas.axes[0, 0]
        for shift, chosen in ((-0.2, BEST), (0.2, LAST)):
            best = [rows[rows.chosen == chosen].sort_values("macro_f1").iloc[-1] for _, rows in bars]
            spread = np.nan_to_num([row.macro_f1_std for row in best])
            axes.bar(places + shift, [row.macro_f1 for row in best], 0.38, yerr=spread, capsize=2, label=chosen)
        axes.set_xticks(places, [name for name, _ in bars], rotation=35, ha="right", fontsize=8)
        axes.set_ylabel("macro F1")
        axes.grid(axis="y", alpha=0.3)
        axes.legend(frameon=False, fontsize=8)


def _curves(path: pathlib.Path, curves: pd.DataFrame, classes: Sequence[str], title: str) -> None:
    """Figures 7 and 8: the F1 of every class over rounds; a row for each number of rare images."""
    groups = [
        [(method, str(augmentation), rows) for (method, augmentation), rows in part.groupby(["method", "augmentation"])]
        for _, part in curves.groupby("rare", dropna=False)
    ]
    columns = max(map(len, groups))
    with Canvas(path, len(groups), columns, width=3.4, height=2.8, title=f"F1 by class, {title}") as canvas:
        for line, group in zip(canvas.axes, groups):
            order = {name: place for place, name in enumerate(("fedavg", *reversed(AUGMENTED)))}
            for axes in line[len(group) :]:
                axes.set_visible(False)
            for axes, (method, augmentation, rows) in zip(line, sorted(group, key=lambda one: (order[one[0]], one[1]))):
                for label in classes:
                    axes.plot(rows["round"], rows[f"f1_{label}"], marker="o", markersize=2.5, label=label)
                rare = rows.rare.iloc[0]
                name = f"{method} {augmentation}" if augmentation else method
                axes.set_title(name if pd.isna(rare) else f"{name}, {rare} rare", fontsize=9)
                axes.set(xlabel="round", ylabel="F1", ylim=(-0.02, 1.02))
                axes.grid(alpha=0.3)
        canvas.axes[0, 0].legend(fontsize=7, frameon=False)


def styled(path: pathlib.Path, styler: Styler, pool: Pool, made: Mapping[tuple[str, int], Made], title: str) -> None:
    """Figure 3: content | style | result. No client sees such a sheet: content and style are at different sites."""
    (name, seed), one = next(iter(made.items()))
    augmentation = Augmentation.parse(name)
    sites = pool.sites(pool.rare_of(augmentation), seed)
    groups = [rows for _, rows in one.table.groupby(["client", "label"], sort=False)]
    picked = [rows.iloc[place * (len(rows) - 1) // max(_ROWS - 1, 1)] for place, rows in enumerate(groups[:_ROWS])]
    with Canvas(path, len(picked), 3, width=1.5, height=1.55, title=title) as canvas:
        for line, row in zip(canvas.axes, picked):
            styles = styler.style_images(sites.of(row.sender, row.label), augmentation.styles, seed)
            pictures = (*styler.read([row.content]), styles[int(row["style"])], *styler.read([row.path]))
            for axes, image, text in zip(line, pictures, (row.client, row.sender, "made")):
                picture(axes, image, text)
            line[0].set_ylabel(row.label, fontsize=8)
        for axes, text in zip(canvas.axes[0], ("content: ", "style: ", "")):
            axes.set_title(text + axes.get_title(), fontsize=8)


def _attack(path: pathlib.Path, attacked: Attacked, title: str) -> None:
    shape = (2, len(attacked.real))
    with Canvas(path, *shape, width=1.3, height=1.4, title=f"from Gram matrices alone, VGG-19: {title}") as canvas:
        for line, pictures, name in zip(canvas.axes, (attacked.real, attacked.found), ("real", "recovered")):
            for axes, image in zip(line, pictures):
                picture(axes, image, "")
            line[0].set_ylabel(name, fontsize=8)
