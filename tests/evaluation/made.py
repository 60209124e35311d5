"""Finished runs with predictions whose scores are known by hand."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tffapps.evaluation import paired, stored
from tffapps.study import TRAINED, Record

SUFFIXES = ("", "_low", "_high", "_std")
COUNTS = ["images", "subjects", "splits", "seeds"]
SURE = 0.8  # the probability of the class that is predicted; the others share the rest evenly


def rows_of(
    truth: Sequence[str],
    probabilities: np.ndarray,
    classes: Sequence[str],
    *,
    images: Sequence[str] | None = None,
    subjects: Sequence[str] | None = None,
    clients: Sequence[str] | None = None,
    part: str = stored.TEST,
) -> pd.DataFrame:
    """Rows to store; by default all images are of one client, and each is a subject of its own."""
    names = list(images or [f"image{number:02}" for number in range(len(truth))])
    return pd.DataFrame(
        {
            "part": part, "image": names, "subject": list(subjects or names),
            "client": list(clients or ["client1"] * len(truth)), "judge": "", "label": list(truth),
            **stored.probability_columns(np.asarray(probabilities, np.float64), list(classes)),
        }
    )  # fmt: skip


def answers(truth: Sequence[str], predicted: Sequence[str], classes: Sequence[str], **columns: Any) -> pd.DataFrame:
    """Every image is called what `predicted` says, always with the same certainty."""
    probabilities = np.full((len(truth), len(classes)), (1 - SURE) / (len(classes) - 1))
    probabilities[np.arange(len(truth)), [list(classes).index(label) for label in predicted]] = SURE
    return rows_of(truth, probabilities, classes, **columns)


def hits(right: int, of: int, classes: Sequence[str], **columns: Any) -> pd.DataFrame:
    """Images whose classes take turns; the first `right` of them are called what they are, the others the next class.

    The accuracy is right / of.
    """
    truth = [classes[number % len(classes)] for number in range(of)]
    missed = [classes[(number + 1) % len(classes)] for number in range(of)]
    return answers(truth, [*truth[:right], *missed[right:]], classes, **columns)


def record(
    root: pathlib.Path,
    labels: dict[str, Any],
    rows: pd.DataFrame,
    *,
    rounds: pd.DataFrame | None = None,
    clients: pd.DataFrame | None = None,
    trained: int = 20,
) -> Record:
    """A run's, in a new folder below `root`, where its predictions are stored."""
    folder = folder_with(root, rows)
    empty = pd.DataFrame()
    return Record(
        labels, empty if rounds is None else rounds, empty if clients is None else clients, {TRAINED: trained}, folder,
        list,
    )  # fmt: skip


def columns(*metrics: str, worst: str = "") -> list[str]:
    """Of a table of scores, after those that tell its rows apart."""
    scores = [name + suffix for name in metrics for suffix in SUFFIXES]
    return [*scores, *COUNTS, *(["worst_client", f"worst_client_{worst}"] if worst else [])]


def without_draws(table: pd.DataFrame) -> pd.DataFrame:
    """Without what is drawn by subject: at sites they have other pseudonyms, so that others are drawn."""
    drawn = [name for name in table.columns if name.endswith(("_low", "_high")) or name in ("p", "p_holm", "verdict")]
    return table.drop(columns=[*drawn, "data"])


@contextlib.contextmanager
def few_swaps() -> Iterator[None]:
    """Paired tests of areas, which sort the images anew for every swap, with fewer swaps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired, "_FEWEST", 50)
        patch.setattr(paired, "_SORTED", 0)
        yield


def folder_with(root: pathlib.Path, rows: pd.DataFrame) -> pathlib.Path:
    """A new folder below `root`, with the predictions of a last model."""
    folder = root / f"run{len(list(root.iterdir()))}"
    folder.mkdir()
    stored.write(folder, {stored.LAST: rows})
    return folder
