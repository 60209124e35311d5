"""What the commands write that change images by VGG-19: a folder of PNGs, and a table of their losses."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from preprocessing.errors import UserError
from preprocessing.files import make_writable, write

if TYPE_CHECKING:
    import numpy as np

TABLE = "losses.csv"


def open_folder(out: Path, taken: dict[str, Path]) -> None:
    """Makes the folder ready; none of those `taken`, by what they hold, may be it."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is there and is not a folder; choose another OUT")
    for what, folder in taken.items():
        if out.resolve() == folder.resolve():
            raise UserError(f"{out}: holds the {what}; choose another OUT")
    make_writable(out)


def write_png(path: Path, image: np.ndarray) -> None:
    """Of uint8 RGB (height, width, 3)."""
    import cv2

    write(path, cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes())


def write_table(folder: Path, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]) -> None:
    """A file's name and its losses in each row."""
    text = io.StringIO()
    table = [["file", *columns], *([name, *(f"{number:.6g}" for number in numbers)] for name, numbers in rows)]
    csv.writer(text, lineterminator="\n").writerows(table)
    write(folder / TABLE, text.getvalue().encode(errors="surrogateescape"))
