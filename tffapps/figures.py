"""Figures that stand beside the tables."""

from __future__ import annotations

import pathlib
from typing import Any

import pandas as pd

from tffapps.files import replacing


class Canvas:
    """`with Canvas(path, rows, columns) as canvas:` draw on `canvas.axes[row, column]`; the file appears at the end."""

    def __init__(
        self, path: pathlib.Path, rows: int = 1, columns: int = 1, *, width: float, height: float, title: str = ""
    ) -> None:
        import matplotlib

        matplotlib.use("Agg")
        matplotlib.rcParams["text.parse_math"] = False  # a client may be called $\frac$, and that is not a formula
        from matplotlib import pyplot

        self._path, self._pyplot = path, pyplot
        size = (width * columns, height * rows)
        self._figure, self.axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
        self._figure.suptitle(title, fontsize=10)

    def __enter__(self) -> Canvas:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self._write_powers_plainly()
            with replacing(self._path, "wb") as file:
                self._figure.savefig(file, format="png", dpi=120)
        self._pyplot.close(self._figure)

    def _write_powers_plainly(self) -> None:
        """Axes by logarithms label their ticks with formulas, which are not read as such here."""
        from matplotlib.ticker import LogFormatter

        for axis in (axis for axes in self.axes.flat for axis in (axes.xaxis, axes.yaxis)):
            if axis.get_scale() == "log":
                axis.set_major_formatter(LogFormatter())


def picture(axes: Any, image: Any, title: str = "") -> None:
    """An image or a mask, without axes."""
    axes.imshow(image, cmap="gray", interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize=8)


def curves(path: pathlib.Path, records: pd.DataFrame, metric: str, title: str) -> None:
    """A metric over rounds, a line for each `name`: the mean over seeds, and a band from the lowest to the highest."""
    with Canvas(path, width=8, height=4.5) as canvas:
        axes = canvas.axes[0, 0]
        for name, rows in records.groupby("name", sort=False):
            by_round = rows.groupby("round")[metric]
            axes.fill_between(by_round.mean().index, by_round.min(), by_round.max(), alpha=0.12)
            axes.plot(by_round.mean(), label=name, marker="o", markersize=3)
        axes.set(xlabel="round", ylabel=metric.replace("_", " "), title=title)
        axes.xaxis.get_major_locator().set_params(integer=True)  # there is no round 1.5
        axes.grid(alpha=0.3)
        if len(records):
            axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
