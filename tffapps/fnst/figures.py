"""The figures of `results/fnst/`."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tffapps import Canvas, Pool, picture
from tffapps.data import chaoyang
from tffapps.fnst import AUGMENTED, Augmentation
from tffapps.fnst.attack import Attacked
from tffapps.fnst.data import images_of
from tffapps.fnst.exchange import Made
from tffapps.fnst.styler import Styler
from tffapps.fnst.tables import Findings, entries_of, f1_per_class, scores_of

_ROWS = 6  # of the sheet of styles


def draw_all(folder: pathlib.Path, findings: Findings) -> None:
    """Draws all that needs no image but the attack's."""
    pool, what_ran = findings.federation, findings.what_ran
    title = f"{what_ran['data']}, {what_ran['model']}, {what_ran['weights']}"
    _classes(folder / "classes.png", pool)
    _scores(folder / "macro_f1.png", scores_of(entries_of(findings.records)), title)
    curves = f1_per_class(findings.records, pool.classes)
    if len(curves):
        _curves(folder / "f1_per_class.png", curves, pool.classes, title)
    if findings.attacked is not None:
        _attack(folder / "gram_attack.png", findings.attacked, what_ran["vgg"])


def _classes(path: pathlib.Path, federation: Pool) -> None:
    """Figure 4: training images by class, in one place and by client."""
    classes = federation.classes
    counts = chaoyang.distribution(federation.part("train"), classes).set_index("client")[classes]
    panels = {"all data": counts.sum(), **{client: counts.loc[client] for client in federation.clients}}
    with Canvas(path, 1, len(panels), width=2.2, height=2.8, title=f"training images, {federation.name}") as canvas:
        for axes, name, values in zip(canvas.axes[0], panels, panels.values()):
            bars = axes.bar(range(len(classes)), values, color=[f"C{index}" for index in range(len(classes))])
            axes.bar_label(bars, fontsize=7)
            axes.margins(y=0.12)
            axes.set_title(name, fontsize=9)
            axes.set_xticks(range(len(classes)), classes, rotation=60, ha="right", fontsize=7)
            axes.tick_params(axis="y", labelsize=7)


def _scores(path: pathlib.Path, scores: pd.DataFrame, title: str) -> None:
    """Figures 5 and 6: macro F1 of everything that ran, the best client for all that train alone."""
    bars: dict[str, pd.DataFrame] = {}
    for (method, rare, augmentation), rows in scores.groupby(
        ["method", "rare", "augmentation"], sort=False, dropna=False
    ):
        setting = augmentation or ("" if pd.isna(rare) else f"rare {rare}")
        bars[f"{method} {setting}".strip().replace("separate", "best alone")] = rows
    positions = np.arange(len(bars))
    with Canvas(path, width=max(5.0, 0.8 * len(bars) + 2), height=3.6, title=title) as canvas:
        axes = canvas.axes[0, 0]
        best = [rows.sort_values("macro_f1").iloc[-1] for rows in bars.values()]
        around = [[row.macro_f1 - row.macro_f1_low, row.macro_f1_high - row.macro_f1] for row in best]
        spread = np.nan_to_num(np.array(around, float).T).clip(0)
        axes.bar(positions, [row.macro_f1 for row in best], 0.6, yerr=spread, capsize=3, label="with 95 % interval")
        axes.set_xticks(positions, list(bars), rotation=35, ha="right", fontsize=8)
        axes.set_ylabel("macro F1")
        axes.set_ylim(0, 1.2)  # room for the legend
        axes.grid(axis="y", alpha=0.3)
        axes.legend(loc="upper right", ncols=2, frameon=False, fontsize=8)


def _curves(path: pathlib.Path, curves: pd.DataFrame, classes: Sequence[str], title: str) -> None:
    """Figures 7 and 8: the F1 of every class over rounds; a row for each number of rare images."""
    order = ["fedavg", *reversed(AUGMENTED)]
    lines = [
        sorted(part.groupby(["method", "augmentation"]), key=lambda group: (order.index(group[0][0]), group[0][1]))
        for _, part in curves.groupby("rare", dropna=False)
    ]
    columns = max(map(len, lines))
    with Canvas(path, len(lines), columns, width=3.4, height=2.8, title=f"F1 by class, {title}") as canvas:
        for row, groups in zip(canvas.axes, lines):
            for axes in row[len(groups) :]:
                axes.set_visible(False)
            for axes, ((method, augmentation), rows) in zip(row, groups):
                for label in classes:
                    axes.plot(rows["round"], rows[f"f1_{label}"], marker="o", markersize=2.5, label=label)
                rare = rows.rare.iloc[0]
                name = f"{method} {augmentation}".strip()
                axes.set_title(name if pd.isna(rare) else f"{name}, {rare} rare", fontsize=9)
                axes.set(xlabel="round", ylabel="F1", ylim=(-0.02, 1.02))
                axes.grid(alpha=0.3)
        canvas.axes[0, 0].legend(fontsize=7, frameon=False)


def styled(
    path: pathlib.Path, styler: Styler, federation: Pool, made: Made, augmentation: Augmentation, seed: int
) -> None:
    """Figure 3: content | style | result. No client sees such a sheet: content and style are at different sites.

    Args:
      path: of the figure.
      styler: what the images were made with.
      federation: whose images they were made of.
      made: what was made.
      augmentation: of which settings.
      seed: with which style images were chosen.
    """
    picked = _of_every_class(made.table)
    with Canvas(path, len(picked), 3, width=1.5, height=1.55, title=federation.name) as canvas:
        for (left, middle, right), row in zip(canvas.axes, picked):
            styles = styler.style_images(images_of(federation, row.sender, row.label), augmentation.styles, seed)
            content, result = styler.read([row.content, row.path])
            picture(left, content, row.client)
            picture(middle, styles[int(row["style"])], row.sender)
            picture(right, result, "made")
            left.set_ylabel(row.label, fontsize=8)
        for axes, text in zip(canvas.axes[0], ("content: ", "style: ", "")):
            axes.set_title(text + axes.get_title(), fontsize=8)


def _of_every_class(table: pd.DataFrame) -> list[pd.Series]:
    """A row for each of some clients and classes: every class first, then further clients."""
    keys = table[["client", "label"]].drop_duplicates()
    turns = keys.assign(turn=keys.groupby("label").cumcount()).sort_values(["turn", "label"])
    shown = turns[: max(_ROWS, table.label.nunique())]
    picked = []
    for number, (client, label) in enumerate(zip(shown.client, shown.label)):
        rows = table[(table.client == client) & (table.label == label)]
        picked.append(rows.iloc[number * (len(rows) - 1) // max(len(shown) - 1, 1)])
    return picked


def _attack(path: pathlib.Path, attacked: Attacked, title: str) -> None:
    columns, title = len(attacked.real), f"from Gram matrices alone, VGG-19: {title}"
    with Canvas(path, 2, columns, width=1.3, height=1.4, title=title) as canvas:
        for row, images, name in zip(canvas.axes, (attacked.real, attacked.recovered), ("real", "recovered")):
            for axes, image in zip(row, images):
                picture(axes, image)
            row[0].set_ylabel(name, fontsize=8)
