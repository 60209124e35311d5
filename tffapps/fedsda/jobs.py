"""FedSDA's work at a site, asked for by a coordinator (`tffapps.wire.jobs`): stains are measured, patches aligned.

Of a site's stains its number, their mean and covariance, and distances to drawn ones are told; of its aligned patches
how many there are. Matrices and patches stay.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from preprocessing.stain import StainSettings
from tffapps.errors import UserError
from tffapps.evaluation.distances import Gaussian, frechet_distance, matrix_wasserstein
from tffapps.federated.moments import Moments
from tffapps.fedsda import aligning, separation
from tffapps.fedsda import stains as measuring
from tffapps.fedsda.data import CACHE
from tffapps.fedsda.stain_vectors import NUMBERS, as_vectors, standardised
from tffapps.wire.jobs import file_name, link_all, rows_asked
from tffapps.wire.messages import Message


def stains(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """Measures the stains of some rows; the vectors of those that can be measured are left in a file."""
    own = rows_asked(request, rows)
    settings, measured = _measured(request, own)
    matrices = measured.of(own)
    vectors = np.ascontiguousarray(as_vectors(matrices), np.float32)
    (folder / file_name(0)).write_bytes(vectors.tobytes())
    words = {
        "count": len(vectors),
        "key": hashlib.sha256(vectors.tobytes()).hexdigest()[:16],
        "row": separation.row(own, measured, settings),
    }
    if not len(vectors):
        return Message(words)
    fitted = Gaussian.of(vectors)
    return Message(words, {"mean": fitted.mean, "factor": fitted.factor})


def distances(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """Of drawn vectors from those of the site."""
    del folder
    own = rows_asked(request, rows)
    moments = Moments(_numbers(request, "mean", (NUMBERS,)), _numbers(request, "std", (NUMBERS,)))
    drawn = _numbers(request, "drawn", (None, NUMBERS))
    real = standardised(_measured(request, own)[1].of(own), moments)
    return Message({"fd": frechet_distance(drawn, real), "wd": matrix_wasserstein(drawn, real)})


def alignment(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """Gives each of some patches the stain matrix that comes with it."""
    own = rows_asked(request, rows)
    matrices = _numbers(request, "matrices", (len(own), 3, 2)).astype(np.float32)
    paths = aligning.aligned(list(own.path), matrices, _settings(request), CACHE)
    link_all(folder, paths)
    return Message({"kept": sum(path == source for path, source in zip(paths, own.path))})


def _measured(request: Message, own: pd.DataFrame) -> tuple[StainSettings, measuring.Stains]:
    settings = _settings(request)
    contents = hashlib.sha256("\n".join([str(request.fields.get("data")), *own.path]).encode()).hexdigest()
    return settings, measuring.measure(list(own.path), settings, contents, CACHE)


def _settings(request: Message) -> StainSettings:
    given: Any = request.fields.get("separation")
    try:
        return StainSettings(**given)
    except (TypeError, ValueError) as error:
        raise UserError(f"settings of a separation that cannot be: {error}") from None


def _numbers(request: Message, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    array = request.arrays.get(name, np.zeros(0))
    fits = array.dtype.kind == "f" and array.ndim == len(shape)
    if not fits or any(side not in (None, found) for side, found in zip(shape, array.shape)):
        raise UserError(f"a request whose {name} are not numbers of the shape {shape}")
    if not np.isfinite(array).all():
        raise UserError(f"a request whose {name} are not finite")
    return array
