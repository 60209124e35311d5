"""The figures of `results/fedsda/`."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tffapps import Canvas, Record
from tffapps.data.made import stacks
from tffapps.fedsda.data import FEDERATION, Fold
from tffapps.fedsda.diffusion import StainModel
from tffapps.fedsda.quality import PictureQuality
from tffapps.fedsda.stain_mixtures import StainStatistics
from tffapps.fedsda.tables import Results, denoisers

_DOTS = 200  # of each client in a scatter
_SEED = 0


def draw_all(folder: pathlib.Path, results: Results) -> None:
    """Every figure that there is something for."""
    fold, data = results.fold, results.what_ran["data"]
    title = f"{data}, {results.what_ran['model']}, {results.what_ran['weights']}"
    if results.records:
        _areas(folder / "auroc.png", [record for record in results.records if record["fold"] == FEDERATION], title)
    if denoisers(results.stain_models):
        _schedules(folder / "frechet.png", denoisers(results.stain_models), data)
    if results.stain_models and results.stains is not None:
        _stains(folder / "stains.png", fold.clients, results.stains, results.stain_models[0], data)
    if results.quality:
        _features(folder / "tsne.png", fold, results.quality, data)
        _patches(folder / "patches.png", fold, results.quality, data)


def _areas(path: pathlib.Path, records: Sequence[Record], title: str) -> None:
    """Figure 5: AUROC over rounds, means over seeds; methods on none and fedsda, and sides under the first method."""
    first = records[0]["method"]
    panels = {
        "methods": [record for record in records if record["side"] in ("none", "fedsda")],
        f"sides, {first}": [record for record in records if record["method"] == first],
    }
    with Canvas(path, 1, 2, width=5, height=4, title=title) as canvas:
        for axes, (name, shown) in zip(canvas.axes[0], panels.items()):
            by_method = name == "methods"
            lines: dict[tuple[str, str], list[pd.Series]] = {}
            for record in shown:
                lines.setdefault((record["method"], record["side"]), []).append(record.rounds.auroc)
            kinds = list(dict.fromkeys(method if by_method else side for method, side in lines))
            for (method, side), areas in lines.items():
                mean = pd.concat(areas, axis=1).mean(axis=1)
                colour = f"C{kinds.index(method if by_method else side)}"
                dashed = "--" if by_method and side == "none" else "-"
                label = f"{method}, {side}" if by_method else side
                axes.plot(range(1, len(mean) + 1), mean, dashed, marker="o", markersize=3, color=colour, label=label)
            axes.set(title=name, xlabel="round", ylabel="AUROC")
            axes.grid(alpha=0.3)
            axes.legend(fontsize=7, frameon=False)


def _schedules(path: pathlib.Path, stain_models: Sequence[StainModel], title: str) -> None:
    """Figure 7: the distance of drawn from real stains over rounds, for each number of local epochs."""
    with Canvas(path, width=6, height=4, title=f"Fréchet distance of drawn from real stains, {title}") as canvas:
        axes = canvas.axes[0, 0]
        for record in (model.record for model in stain_models):
            if record["block"] == stain_models[0].record["block"]:
                line = record.rounds[["round", "fd"]].dropna()
                axes.plot(line["round"], line.fd, marker="o", markersize=3, label=f"{record['epochs']} local epochs")
        axes.set(xlabel="round", ylabel="Fréchet distance", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)


def _stains(
    path: pathlib.Path,
    clients: Sequence[str],
    measured: Sequence[np.ndarray],
    model: StainModel | StainStatistics,
    title: str,
) -> None:
    """Figures 14 to 16: every client's stains, measured (above) and drawn (below), in red and blue."""
    numbers = np.repeat(np.arange(len(clients)), _DOTS)
    drawn = model.draw(numbers, _SEED)
    kinds = {"measured": measured, "drawn": [drawn[numbers == number] for number in range(len(clients))]}
    with Canvas(path, 2, 2, width=4, height=3.4, title=f"stain matrices, {title}") as canvas:
        for row, (kind, by_client) in enumerate(kinds.items()):
            for column, name in enumerate(("haematoxylin", "eosin")):
                axes = canvas.axes[row, column]
                for client, matrices in zip(clients, by_client):
                    axes.scatter(matrices[:_DOTS, 0, column], matrices[:_DOTS, 2, column], s=4, alpha=0.6, label=client)
                axes.set(title=f"{name}, {kind}", xlabel="red", ylabel="blue")
        for column in range(2):  # drawn stains in the frame of the measured ones
            upper, lower = canvas.axes[:, column]
            lower.set(xlim=upper.get_xlim(), ylim=upper.get_ylim())
        canvas.axes[0, 1].legend(fontsize=7, frameon=False)


def _features(path: pathlib.Path, fold: Fold, quality: PictureQuality, title: str) -> None:
    """Figure 6: the clients' images under each side, t-SNE of Inception's features; together: the same axes."""
    from sklearn.manifold import TSNE

    sides = list(quality.points)
    sets = [features[: _DOTS // 2] for side in sides for features in quality.points[side]]
    together = np.concatenate(sets)
    perplexity = min(30.0, (len(together) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=_SEED).fit_transform(together)
    parts = np.split(points, np.cumsum([len(part) for part in sets])[:-1])
    with Canvas(path, 1, len(sides), width=3.2, height=3.2, title=f"t-SNE of {quality.features}, {title}") as canvas:
        for column, side in enumerate(sides):
            axes = canvas.axes[0, column]
            for number, client in enumerate(fold.clients):
                part = parts[column * len(fold.clients) + number]
                axes.scatter(part[:, 0], part[:, 1], s=6, alpha=0.7, label=client)
            axes.set(title=side, xticks=[], yticks=[])
            axes.set(xlim=(points[:, 0].min(), points[:, 0].max()), ylim=(points[:, 1].min(), points[:, 1].max()))
        canvas.axes[0, 0].legend(fontsize=7, frameon=False)


def _patches(path: pathlib.Path, fold: Fold, quality: PictureQuality, title: str) -> None:
    """Figures 17 and 18: two patches of each client, a row for each side."""
    sides = list(quality.aligned)
    first = quality.aligned[sides[0]].train
    shown = [(client, source) for client in fold.clients for source in first.source[first.client == client].iloc[:2]]
    with Canvas(path, len(sides), len(shown), width=1.2, height=1.25, title=title) as canvas:
        for row, side in enumerate(sides):
            made = quality.aligned[side].train.drop_duplicates("source").set_index("source").path
            for column, (client, source) in enumerate(shown):
                axes = canvas.axes[row, column]
                _, images = next(stacks([made[source]], rejects={}))
                axes.imshow(images[0])
                axes.set(xticks=[], yticks=[])
                if row == 0:
                    axes.set_title(client, fontsize=7)
                if column == 0:
                    axes.set_ylabel(side, fontsize=8)
