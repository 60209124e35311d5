"""Patches cut out of whole slides: square, side by side, tissue only.

A slide is far larger than memory and mostly glass. It is read tile by tile (see `slides`), and where its file has a
coarse level, that one tells which patches are background: these are never read.

    python -m preprocessing.patches SLIDE_OR_FOLDER OUT [--size 256] [--magnification 20 | --level N]
"""

from __future__ import annotations

if __name__ == "__main__":  # before OpenCV is imported: --help needs none
    from preprocessing.patches_command import main

    raise SystemExit(main())

import csv
import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from preprocessing import image_bytes
from preprocessing.errors import Rejected, UserError
from preprocessing.files import write
from preprocessing.patches_command import PatchSettings
from preprocessing.slides import Slide

_COLOURLESS, _BRIGHT, _DARK = 0.07, 0.92, 40  # limits of background: saturation, lightness, grey level
_OVERVIEW_PIXELS = 8  # of a patch's side, at least, on the level that tells tissue from background
_DOUBT = 0.5  # a patch with this share of the tissue asked for on the overview is looked at closely
_AT_ONCE = 64  # patches read before they are written


class Patch(NamedTuple):
    """A row of a slide's table."""

    file: str  # below OUT; empty if dropped
    x: int  # upper left corner, in pixels of the finest level
    y: int
    level: int  # where the tissue was measured
    tissue: float
    kept: int  # 1 or 0


def tissue_mask(image: np.ndarray) -> np.ndarray:
    """Where an RGB image shows tissue: coloured, and neither as bright as glass nor black; bool (height, width)."""
    highest, lowest = image.max(axis=2), image.min(axis=2)
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    coloured = (highest - lowest) > np.float32(_COLOURLESS) * highest
    return coloured & (grey < 255 * _BRIGHT) & (highest >= _DARK)


class Cut:
    """One slide's patches: which there are, which show tissue, and their files."""

    def __init__(self, slide: Slide, name: str, target: Path | None, settings: PatchSettings) -> None:
        """`target` is the folder of its files; None where none are to be written."""
        self._slide, self._name, self._target, self._settings = slide, name, target, settings
        self._factors = [slide.levels[0][0] / width for width, _ in slide.levels]
        self._level, wanted = self._choose_level()
        self._side = max(1, round(settings.size * wanted / self._factors[self._level]))  # pixels to read
        width, height = slide.levels[self._level]
        self._columns, self._rows = width // self._side, height // self._side
        if not self.total:
            raise UserError(
                f"{name}: level {self._level} is {width}×{height} pixels, less than one patch of {self._side}; "
                "lower --size or raise the magnification"
            )

    @property
    def total(self) -> int:
        return self._columns * self._rows

    def is_complete(self, rows: list[Patch]) -> bool:
        """Whether an earlier run's table leaves nothing to do."""
        limit = self._settings.limit
        return len(rows) == self.total or (limit is not None and sum(row.kept for row in rows) >= limit)

    @property
    def reach(self) -> float:
        """A patch's side in pixels of the finest level."""
        return self._side * self._factors[self._level]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self._rows, self._columns

    @property
    def covered(self) -> tuple[float, float]:
        """The shares of the slide's width and height that the grid covers; what is left is narrower than a patch."""
        width, height = self._slide.levels[self._level]
        return self._columns * self._side / width, self._rows * self._side / height

    def pictures(self) -> Iterator[tuple[Patch, np.ndarray | None]]:
        """Every patch, row by row, and where it shows tissue its picture: uint8 RGB (size, size, 3). Writes nothing."""
        level, shares = self._overview()
        for place in range(self.total):
            if shares is not None and shares[place] < _DOUBT * self._settings.tissue:
                yield self._row(place, level, float(shares[place]), kept=False), None
            else:
                yield self._look(place)

    def run(self) -> Iterator[Patch]:
        """Every patch looked at; those kept are in their files."""
        assert self._target is not None
        places = np.arange(self.total)
        level, shares = self._overview()
        if shares is not None:
            background = shares < _DOUBT * self._settings.tissue
            for place in places[background]:
                yield self._row(place, level, float(shares[place]), kept=False)
            places = places[~background]
        limit = self.total
        if self._settings.limit is not None:
            limit = self._settings.limit
            places = np.random.default_rng(0).permutation(places)
        kept = 0
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for begin in range(0, len(places), _AT_ONCE):
                if kept >= limit:
                    return
                found: list[tuple[Patch, np.ndarray | None]] = []
                for place in places[begin : begin + _AT_ONCE]:
                    row, image = self._look(place)
                    found.append((row, image))
                    kept += row.kept
                    if kept >= limit:
                        break
                new = [(self._target / row.file, image) for row, image in found if image is not None]
                for _ in pool.map(_write_png, new):
                    pass
                yield from (row for row, _ in found)

    def _choose_level(self) -> tuple[int, float]:
        """The level to read, and how many pixels of the finest level a patch's pixel stands for."""
        settings, slide = self._settings, self._slide
        if settings.level is not None:
            if settings.level >= len(slide.levels):
                raise UserError(f"{self._name}: no level {settings.level}; it has 0 to {len(slide.levels) - 1}")
            return settings.level, self._factors[settings.level]
        assert settings.magnification is not None
        if slide.magnification is None:
            raise UserError(f"{self._name}: does not say its magnification; give --level (0 is the finest)")
        wanted = slide.magnification / settings.magnification
        if wanted < 0.95:
            raise UserError(
                f"{self._name}: has magnification {slide.magnification:g}, not {settings.magnification:g}; give less"
            )
        fine = [level for level, factor in enumerate(self._factors) if factor <= wanted * 1.02]
        return (fine[-1] if fine else 0), wanted

    def _overview(self) -> tuple[int, np.ndarray | None]:
        """A coarser level, and by its account the tissue's share of every patch; None where there is no such level."""
        reach = self.reach
        coarse = [level for level, factor in enumerate(self._factors) if reach / factor >= _OVERVIEW_PIXELS]
        level = coarse[-1] if coarse else 0
        if self._factors[level] < 2 * self._factors[self._level]:
            return 0, None
        width, height = self._slide.levels[level]
        side = reach / self._factors[level]
        ends = np.minimum(np.rint(np.arange(self._columns + 1) * side).astype(int), width)
        shares = np.zeros((self._rows, self._columns))
        for row in range(self._rows):
            top, bottom = round(row * side), min(round((row + 1) * side), height)
            if bottom <= top:
                continue
            mask = tissue_mask(self._slide.read(level, 0, top, width, bottom - top))
            so_far = np.concatenate([[0], np.cumsum(mask.sum(axis=0))])[ends]
            shares[row] = np.diff(so_far) / np.maximum(np.diff(ends) * (bottom - top), 1)
        return level, shares.ravel()

    def _look(self, place: int) -> tuple[Patch, np.ndarray | None]:
        """A patch's row, and its picture if that is not in its file yet."""
        size = self._settings.size
        row = self._row(place, self._level, 0.0, kept=True)
        there = self._target / row.file if self._target else None
        image = _read_png(there) if there and there.is_file() else None
        new = image is None or image.shape != (size, size, 3)
        if image is None or new:
            line, column = divmod(int(place), self._columns)
            image = self._slide.read(self._level, column * self._side, line * self._side, self._side, self._side)
            if self._side != size:
                how = cv2.INTER_AREA if self._side > size else cv2.INTER_CUBIC
                image = cv2.resize(image, (size, size), interpolation=how)
        share = float(tissue_mask(image).mean())
        kept = share >= self._settings.tissue
        return self._row(place, self._level, share, kept), (image if new and kept else None)

    def _row(self, place: int, level: int, share: float, kept: bool) -> Patch:
        line, column = divmod(int(place), self._columns)
        step = self._side * self._factors[self._level]
        x, y = round(column * step), round(line * step)
        file = f"{self._name}/{self._name}_{x}_{y}.png" if kept else ""
        return Patch(file, x, y, level, round(share, 4), int(kept))


def read_table(table: Path, target: Path) -> list[Patch]:
    """The rows of an earlier run; none if there are not all of the files it names."""
    if not table.is_file():
        return []
    try:
        with open(table, newline="") as file:
            rows = [
                Patch(name, int(x), int(y), int(level), float(tissue), int(kept))
                for name, x, y, level, tissue, kept in list(csv.reader(file))[1:]
            ]
    except ValueError:  # it was changed: looked at again
        return []
    return rows if all((target / row.file).is_file() for row in rows if row.kept) else []


def write_table(table: Path, rows: list[Patch]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([Patch._fields, *rows])
    write(table, text.getvalue().encode())


def _read_png(file: Path) -> np.ndarray | None:
    """None where it is damaged: the patch is cut anew."""
    try:
        return cv2.cvtColor(image_bytes.decode(file.read_bytes(), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    except (OSError, Rejected):
        return None


def _write_png(job: tuple[Path, np.ndarray]) -> None:
    path, image = job
    write(path, cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR))[1].tobytes())
