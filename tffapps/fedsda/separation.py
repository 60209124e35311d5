"""How well a client's patches come apart into stains and densities: the rows of `separation.csv`."""

from typing import Any

import numpy as np
import pandas as pd

from preprocessing import stain
from preprocessing.stain import StainSettings
from tffapps.data import tissue
from tffapps.data.made import stacks
from tffapps.evaluation.image_quality import ssim
from tffapps.fedsda.stains import Stains

COLUMNS = ("patches", "separated", "not_separated", "reconstruction_ssim", "method", "lambda")  # without a truth
_RECONSTRUCTED = 200  # patches of each client that are separated and composed again


def row(table: pd.DataFrame, measured: Stains, settings: StainSettings, truth: pd.DataFrame | None = None) -> dict:
    """How many of a client's patches could be separated, how well they come back, and how far from the `truth`."""
    rows = measured.rows(table)
    values: dict[str, Any] = {
        "patches": len(rows), "separated": int(measured.ok[rows].sum()), "not_separated": measured.kinds(rows),
    }  # fmt: skip
    good = table[measured.ok[rows]]
    if truth is not None:
        true = tissue.as_matrices(truth.loc[good.path])
        values |= dict(zip(("h_degrees", "e_degrees"), np.nanmedian(_angles(measured.of(table), true), axis=0)))
    values["reconstruction_ssim"] = _reconstruction(list(good.path[:_RECONSTRUCTED]), settings)
    return values | {"method": settings.method, "lambda": settings.lambda_matrix}


def _angles(measured: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Degrees (n, 2) between the columns."""
    cosines = (measured * true).sum(axis=1) / np.linalg.norm(true, axis=1)
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))


def _reconstruction(paths: list[str], separation: StainSettings) -> float:
    """Mean SSIM of patches composed from their own stains and densities."""
    similar: list[float] = []
    for _, images in stacks(paths, rejects={}):
        parts = stain.separate(images, separation)
        similar += ssim(images, stain.compose(parts.matrices, parts.densities)).tolist()
    return float(np.mean(similar)) if similar else float("nan")
