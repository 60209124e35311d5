"""The figures of `results/plfl/`."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from preprocessing.knee import KneeSettings, decode, encode, steps
from preprocessing.knee_strip import strip
from tffapps import Canvas, Pool, Record, curves, replacing
from tffapps.plfl import AFTER_GOLD, MAIN_METRICS, division
from tffapps.plfl.tables import start


def draw_all(
    folder: pathlib.Path, records: Sequence[Record], pool: Pool, tables: dict[str, pd.DataFrame], title: str
) -> None:
    """Draws what `tables.all_of` made of the records."""
    rounds = _by_round([record for record in records if not record["poison"]])
    for metric in MAIN_METRICS:
        curves(folder / f"{metric}.png", rounds, metric, title)
    _confusions(folder / "confusion.png", tables["confusion"], pool.classes, title)
    if len(tables["pseudo_labels"]):
        _pseudo_labels(folder / "pseudo_labels.png", tables["pseudo_labels"], pool.classes, title)
    if len(tables["poisoning"]):
        _poisoning(folder / "poisoning.png", tables["poisoning"], division.clients(pool)[0], title)


def knee_steps(path: pathlib.Path, pool: Pool, contrast: str) -> None:
    """Table 4.3: every step of the preprocessing, a row for an image of each class."""
    examples = pool.table.groupby("label", sort=False).source.first()
    sources = [examples[label] for label in pool.classes]
    settings = KneeSettings(contrast=contrast)
    rows = [strip(steps(decode(pathlib.Path(source).read_bytes()), settings), height=160) for source in sources]
    width = max(row.shape[1] for row in rows)
    padded = [np.pad(row, ((0, 0), (0, width - row.shape[1]))) for row in rows]
    with replacing(path, "wb") as file:
        file.write(encode(np.vstack(padded)))


def studies(path: pathlib.Path, table: pd.DataFrame, title: str) -> None:
    """Figure 5.13: accuracies of `tables.studies`, each bar with the network's millions of parameters."""
    with Canvas(path, 1, 1, width=7, height=3.2, title=title) as canvas:
        axes = canvas.axes[0, 0]
        names = [f"{row.study}\n{row.network}" for row in table.itertuples()]
        bars = axes.barh(names[::-1], table.accuracy[::-1])
        axes.bar_label(bars, [f"{each:g} M" for each in table.million_parameters[::-1]], fontsize=8)
        axes.set(xlabel="accuracy", xlim=(0, 1))


def label_shares(path: pathlib.Path, table: pd.DataFrame, title: str) -> None:
    """Scores of `label_shares.csv` over the labelled share, each framework beside the others so that intervals show."""
    shares = sorted(set(table.share))
    with Canvas(path, 1, 2, width=4.6, height=3.6, title=title) as canvas:
        for axes, metric in zip(canvas.axes[0], ("macro_f1", "quadratic_kappa")):
            names = list(table.framework.unique())
            for place, name in enumerate(names):
                rows = table[table.framework == name]
                reach = [rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]]
                aside = 0.04 * (place - (len(names) - 1) / 2)
                axes.errorbar(
                    rows.share.map(shares.index) + aside,
                    rows[metric],
                    reach,
                    marker="o",
                    markersize=3,
                    capsize=2,
                    label=name,
                )
            axes.set(xlabel="labelled share of the images", ylabel=metric.replace("_", " "))
            axes.set_xticks(range(len(shares)), [f"{share:.0%}" for share in shares])
            axes.grid(alpha=0.3)
        canvas.axes[0, 0].legend(frameon=False, fontsize=8, loc="lower right")


def _by_round(records: Sequence[Record]) -> pd.DataFrame:
    """The server's scores over rounds; what begins with the gold model begins at its score, in round 0."""
    gold = {start(record): record.rounds for record in records if record["method"] == "gold"}
    several = len({record["model"] for record in records}) > 1
    parts = []
    for record in records:
        method, model, seed = record["method"], record["model"], record["seed"]
        if method == "gold":
            continue
        table = record.rounds
        if method in AFTER_GOLD:
            table = pd.concat([gold[start(record)].assign(round=0), table])
        name = f"{method} {model}" if several else method
        parts.append(table[["round", *MAIN_METRICS]].assign(name=name, seed=seed))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["round", *MAIN_METRICS, "name", "seed"])


def _confusions(path: pathlib.Path, table: pd.DataFrame, classes: list[str], title: str) -> None:
    frameworks, models = list(table.framework.unique()), list(table.model.unique())
    predicted = [f"predicted_{label}" for label in classes]
    with Canvas(path, len(models), len(frameworks), width=2.6, height=2.7, title=title) as canvas:
        for (framework, model), rows in table.groupby(["framework", "model"], sort=False):
            matrix = rows[predicted].to_numpy()
            axes = canvas.axes[models.index(model), frameworks.index(framework)]
            shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
            axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
            for (row, column), count in np.ndenumerate(matrix):
                colour = "white" if shares[row, column] > 0.5 else "black"
                axes.text(column, row, f"{count}", ha="center", va="center", color=colour)
            axes.set(title=f"{framework}\n{model}", xlabel="predicted")
            axes.set_xticks(range(len(classes)), classes, rotation=30, fontsize=8)
            first = framework == frameworks[0]
            axes.set_yticks(range(len(classes)), classes if first else [""] * len(classes), fontsize=8)
            if first:
                axes.set_ylabel("true")


def _pseudo_labels(path: pathlib.Path, table: pd.DataFrame, classes: list[str], title: str) -> None:
    """For every round: how many labels of each class were kept (mean over clients and seeds), and how many right."""
    pairs = list(table[["framework", "model"]].drop_duplicates().itertuples(index=False, name=None))
    with Canvas(path, 1, len(pairs), width=3.6, height=3.2, title=title) as canvas:
        for axes, (framework, model) in zip(canvas.axes[0], pairs):
            rows = table[(table.framework == framework) & (table.model == model)]
            mean = rows.groupby(["round", "class"], sort=False)[["kept", "right"]].mean().reset_index()
            width = 0.8 / len(classes)
            for code, label in enumerate(classes):
                part = mean[mean["class"] == label]
                middle = part["round"] + (code - (len(classes) - 1) / 2) * width
                bars = axes.bar(middle, part.kept, width, alpha=0.35)
                axes.bar(middle, part.right, width, color=bars[0].get_facecolor()[:3], label=label)
            axes.set(title=f"{framework}, {model}", xlabel="round", ylabel="images labelled (dark: rightly)")
            axes.set_xticks(sorted(set(mean["round"])))
            axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)


def _poisoning(path: pathlib.Path, table: pd.DataFrame, client: str, title: str) -> None:
    with Canvas(path, 1, 2, width=4.2, height=3.4, title=title) as canvas:
        for axes, metric in zip(canvas.axes[0], MAIN_METRICS):
            for (framework, model, what), rows in table.groupby(["framework", "model", "what"], sort=False):
                spread = rows[f"{metric}_std"].fillna(0)
                axes.errorbar(
                    rows.share, rows[metric], spread, marker="o", capsize=3, label=f"{framework} {model}: {what}"
                )
            axes.set(xlabel=f"spoilt share of {client}'s data", ylabel=metric.replace("_", " "))
            axes.grid(alpha=0.3)
            axes.legend(frameon=False, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.18))
