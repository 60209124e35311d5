"""The figures of `results/fedsda/`."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pandas as pd

from tffapps.data.made import stacks
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.diffusion import Learned
from tffapps.fedsda.stains import Stains
from tffapps.figures import Canvas

if TYPE_CHECKING:
    from tffapps.fedsda.runs import Record

_DOTS = 200  # of each client in a scatter
_SEED = 0


def draw_all(
    folder: pathlib.Path,
    fold: Fold,
    measured: Stains | None,
    records: Sequence[Record],
    stain_models: Sequence[Learned],
    quality: dict[str, Any],
    what_ran: dict[str, str],
) -> None:
    title = f"{what_ran['data']}, {what_ran['model']}, {what_ran['weights']}"
    _areas(folder / "auroc.png", [record for record in records if record.fold == FEDERATION], title)
    if stain_models:
        _schedules(folder / "frechet.png", stain_models, what_ran["data"])
    if stain_models and measured is not None:
        _stains(folder / "stains.png", fold, measured, stain_models[0], what_ran["data"])
    if quality:
        _thumbnails(folder / "tsne.png", fold, quality, what_ran["data"])
        _patches(folder / "patches.png", fold, quality, what_ran["data"])


def _areas(path: pathlib.Path, records: Sequence[Record], title: str) -> None:
    """Figure 5: AUROC over rounds, means over seeds; methods on none and fedsda, and sides under the first method."""
    first = records[0].method
    panels = {
        "methods": [record for record in records if record.side in ("none", "fedsda")],
        f"sides, {first}": [record for record in records if record.method == first],
    }
    with Canvas(path, 1, 2, width=5, height=4, title=title) as canvas:
        for axes, (name, shown) in zip(canvas.axes[0], panels.items()):
            by_method = name == "methods"
            kinds = list(dict.fromkeys(record.method if by_method else record.side for record in shown))
            for method, side in dict.fromkeys((record.method, record.side) for record in shown):
                lines = [r.rounds.auroc for r in shown if (r.method, r.side) == (method, side)]
                mean = pd.concat(lines, axis=1).mean(axis=1)
                colour = f"C{kinds.index(method if by_method else side)}"
                dashed = "--" if by_method and side == "none" else "-"
                label = f"{method}, {side}" if by_method else side
                axes.plot(range(1, len(mean) + 1), mean, dashed, marker="o", markersize=3, color=colour, label=label)
            axes.set(title=name, xlabel="round", ylabel="AUROC")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7, frameon=False)


def _schedules(path: pathlib.Path, stain_models: Sequence[Learned], title: str) -> None:
    """Figure 7: the distance of drawn from real stains over rounds, for each number of local epochs."""
    with Canvas(path, width=6, height=4, title=f"Fréchet distance of drawn from real stains, {title}") as canvas:
        axes = canvas.axes[0, 0]
        for learned in stain_models:
            if learned.block == stain_models[0].block:
                line = learned.rounds[["round", "fd"]].dropna()
                axes.plot(line["round"], line.fd, marker="o", markersize=3, label=f"{learned.epochs} local epochs")
        axes.set(xlabel="round", ylabel="Fréchet distance", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)


def _stains(path: pathlib.Path, fold: Fold, measured: Stains, learned: Learned, title: str) -> None:
    """Figures 14 to 16: every client's stains, measured (above) and drawn (below), in red and blue."""
    real = measured.by_client(fold.train, fold.clients)
    numbers = np.repeat(np.arange(len(real)), _DOTS)
    drawn = learned.model.draw(numbers, _SEED)
    with Canvas(path, 2, 2, width=4, height=3.4, title=f"stain matrices, {title}") as canvas:
        for row, (kind, sets) in enumerate(
            (("measured", real), ("drawn", [drawn[numbers == number] for number in range(len(real))]))
        ):
            for column, name in enumerate(("haematoxylin", "eosin")):
                axes = canvas.axes[row, column]
                for client, matrices in zip(fold.clients, sets):
                    axes.scatter(matrices[:_DOTS, 0, column], matrices[:_DOTS, 2, column], s=4, alpha=0.6, label=client)
                axes.set(title=f"{name}, {kind}", xlabel="red", ylabel="blue")
        for column in range(2):  # drawn stains in the frame of the measured ones
            upper, lower = canvas.axes[:, column]
            lower.set(xlim=upper.get_xlim(), ylim=upper.get_ylim())
        canvas.axes[0, 1].legend(fontsize=7, frameon=False)


def _thumbnails(path: pathlib.Path, fold: Fold, quality: dict[str, Any], title: str) -> None:
    """Figure 6: the clients' images under each side, t-SNE of small thumbnails; together, so that axes are the same."""
    from sklearn.manifold import TSNE

    sides = list(quality["aligned"])
    sets = []
    for side in sides:
        train = quality["aligned"][side].train
        for client in fold.clients:
            rows = train[train.client == client]
            paths = list(rows.path.sample(min(len(rows), _DOTS // 2), random_state=_SEED))
            small = [
                cv2.resize(image, (4, 4), interpolation=cv2.INTER_AREA)
                for _, x in stacks(paths, rejects={})
                for image in x
            ]
            sets.append(np.stack(small).reshape(len(small), -1).astype(np.float32) / 255)
    together = np.concatenate(sets)
    perplexity = min(30.0, (len(together) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="pca", random_state=_SEED).fit_transform(together)
    parts = np.split(places, np.cumsum([len(part) for part in sets])[:-1])
    with Canvas(path, 1, len(sides), width=3.2, height=3.2, title=f"t-SNE of 4×4 thumbnails, {title}") as canvas:
        for column, side in enumerate(sides):
            axes = canvas.axes[0, column]
            for number, client in enumerate(fold.clients):
                axes.scatter(*parts[column * len(fold.clients) + number].T, s=6, alpha=0.7, label=client)
            axes.set(title=side, xticks=[], yticks=[])
            axes.set(xlim=(places[:, 0].min(), places[:, 0].max()), ylim=(places[:, 1].min(), places[:, 1].max()))
        canvas.axes[0, 0].legend(fontsize=7, frameon=False)


def _patches(path: pathlib.Path, fold: Fold, quality: dict[str, Any], title: str) -> None:
    """Figures 17 and 18: two patches of each client, a row for each side."""
    sides = list(quality["aligned"])
    first = quality["aligned"][sides[0]].train
    shown = [(client, source) for client in fold.clients for source in first.source[first.client == client].iloc[:2]]
    with Canvas(path, len(sides), len(shown), width=1.2, height=1.25, title=title) as canvas:
        for row, side in enumerate(sides):
            made = quality["aligned"][side].train.drop_duplicates("source").set_index("source").path
            for column, (client, source) in enumerate(shown):
                axes = canvas.axes[row, column]
                (_, images), *_ = list(stacks([made[source]], rejects={}))
                axes.imshow(images[0])
                axes.set(xticks=[], yticks=[])
                if row == 0:
                    axes.set_title(client, fontsize=7)
                if column == 0:
                    axes.set_ylabel(side, fontsize=8)
