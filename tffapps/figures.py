"""Figures that stand beside the tables."""

from __future__ import annotations

import pathlib

import pandas as pd

from tffapps.files import replacing


def curves(path: pathlib.Path, records: pd.DataFrame, metric: str, title: str) -> None:
    """A metric over rounds, a line for each `name`: the mean over seeds, and a band from the lowest to the highest."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for name, rows in records.groupby("name", sort=False):
        by_round = rows.groupby("round")[metric]
        axes.fill_between(by_round.mean().index, by_round.min(), by_round.max(), alpha=0.12)
        axes.plot(by_round.mean(), label=name, marker="o", markersize=3)
    axes.set(xlabel="round", ylabel=metric.replace("_", " "), title=title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    with replacing(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)
    pyplot.close(figure)
