"""Patches with other stains, kept on disk (FedSDA, algorithm 2): their own densities under given matrices."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from preprocessing import stain
from preprocessing.stain import StainSettings
from tffapps.data import made


def aligned(paths: Sequence[str], matrices: np.ndarray, separation: StainSettings, cache: pathlib.Path) -> list[str]:
    """The path of each patch with its matrix (n, 3, 2); its own path where its stains cannot be told apart."""

    def align(images: np.ndarray, rows: Sequence[int]) -> list[np.ndarray | None]:
        found = stain.separate(images, separation)
        composed = stain.compose(matrices[list(rows)], found.densities)
        return [image if ok else None for image, ok in zip(composed, found.ok)]

    settings = {"side": "fedsda", "version": 1, **dataclasses.asdict(separation)}
    parameters = matrices.reshape(len(paths), -1).tolist()
    return made.made_paths(list(paths), parameters, align, settings, cache / "aligned", "stain alignment")
