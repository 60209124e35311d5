"""The figures of `results/fedstyle/`."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tffapps import Canvas, Record
from tffapps.fedstyle import COMPARISON, METRICS, sheet
from tffapps.fedstyle.asked import Answers
from tffapps.fedstyle.data import Federation, pictures_of

_PICTURES = 5  # of each artist on the sheet of hands


def draw_all(
    folder: pathlib.Path,
    federation: Federation,
    records: Sequence[Record],
    answers: Answers | None,
    what_ran: dict[str, str],
) -> None:
    """`answers`: of the model about every test picture, if it was asked."""
    title = f"{what_ran['data']}, {what_ran['model']}, {what_ran['weights']}"
    _hands(folder / "artists.png", federation, what_ran["data"])
    _curves(folder / "comparison.png", [record for record in records if record["study"] == COMPARISON], title)
    if answers is not None:
        rng = np.random.default_rng(0)
        some = sorted(rng.permutation(len(answers.paths))[: sheet.ROWS].tolist())
        sheet.draw(folder, _only(answers, some), top=min(5, len(answers.model.artists)))


def _only(answers: Answers, rows: list[int]) -> Answers:
    return Answers(
        answers.model, [answers.paths[row] for row in rows], answers.probabilities[rows], answers.cosines[rows],
        [answers.known[row] for row in rows],
    )  # fmt: skip


def _curves(path: pathlib.Path, records: Sequence[Record], title: str) -> None:
    """Figure 3: both scores over rounds, means over seeds."""
    with Canvas(path, 1, 2, width=5, height=3.8, title=title) as canvas:
        for axes, metric in zip(canvas.axes[0], METRICS):
            for method in dict.fromkeys(record["method"] for record in records):
                lines = [record.rounds[metric] for record in records if record["method"] == method]
                mean = pd.concat(lines, axis=1).mean(axis=1)
                axes.plot(range(1, len(mean) + 1), mean, marker="o", markersize=2.5, label=method)
            axes.set(xlabel="round", ylabel=metric.replace("_", " "))
            axes.grid(alpha=0.3)
        canvas.axes[0, 0].legend(fontsize=8, frameon=False)


def _hands(path: pathlib.Path, federation: Federation, title: str) -> None:
    """A few pictures of each artist; across sites public ones."""
    some = federation.shown
    with Canvas(path, _PICTURES, federation.artists, width=1.1, height=1.15, title=title) as canvas:
        for column, artist in enumerate(federation.pool.classes):
            shown = pictures_of(list(some.path[some.label == artist][:_PICTURES]))
            for row, axes in enumerate(canvas.axes[:, column]):
                axes.set(xticks=[], yticks=[])
                axes.set_frame_on(False)
                if row in shown:
                    axes.imshow(shown[row])
            canvas.axes[0, column].set_title(artist[:16], fontsize=7)
