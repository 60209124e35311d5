"""Patches with other stains, kept on disk (FedSDA, algorithm 2): their own densities under given matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from preprocessing import stain
from preprocessing.stain import StainSettings
from tffapps.data import made
from tffapps.home import cache_folder


def aligned(paths: Sequence[str], matrices: np.ndarray, separation: StainSettings) -> list[str]:
    """The path of each patch with its matrix (n, 3, 2); its own path where its stains cannot be told apart."""

    def align(images: np.ndarray, rows: Sequence[int]) -> list[np.ndarray | None]:
        separated = stain.separate(images, separation)
        composed = stain.compose(matrices[list(rows)], separated.densities)
        return [image if ok else None for image, ok in zip(composed, separated.ok)]

    settings = {"side": "fedsda", "version": 1, **dataclasses.asdict(separation)}
    parameters = matrices.reshape(len(paths), -1).tolist()
    return made.made_paths(list(paths), parameters, align, settings, cache_folder() / "aligned", "stain alignment")


def kept(paths: Iterable[str], sources: Iterable[str]) -> int:
    """How many patches are as they were."""
    return sum(path == source for path, source in zip(paths, sources))
