"""FedSDA's work at a site, asked for by a coordinator (`tffapps.wire.jobs`): stains are measured, patches aligned.

Of a site's stains its number, their mean and covariance, and distances to drawn ones are told; of its aligned patches
nothing. Matrices and patches stay.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from preprocessing.stain import StainSettings
from tffapps import Message, UserError, cache_folder
from tffapps.evaluation.distances import Gaussian
from tffapps.federated.moments import Moments
from tffapps.fedsda import separation, stain_vectors
from tffapps.fedsda import stains as measuring
from tffapps.fedsda.stain_vectors import NUMBERS
from tffapps.site.jobs import link_all, rows_asked
from tffapps.wire.jobs import file_name


def stains(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """Measures the stains of some rows; the vectors of those that can be measured are left in a file."""
    asked = rows_asked(request, rows)
    settings = _settings(request)
    measured = _measured(request, asked, settings)
    vectors = np.ascontiguousarray(stain_vectors.as_vectors(measured.of(asked)), np.float32)
    (folder / file_name(0)).write_bytes(vectors.tobytes())
    fields = {
        "count": len(vectors),
        "key": hashlib.sha256(vectors.tobytes()).hexdigest()[:16],
        "row": separation.row(asked, measured, settings),
    }
    if not len(vectors):
        return Message(fields)
    fitted = Gaussian.of(vectors)
    return Message(fields, {"mean": fitted.mean, "factor": fitted.factor})


def distances(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """Of drawn vectors from those of the site."""
    asked = rows_asked(request, rows)
    moments = Moments(_numbers(request, "mean", (NUMBERS,)), _numbers(request, "std", (NUMBERS,)))
    drawn = _numbers(request, "drawn", (None, NUMBERS))
    matrices = _measured(request, asked, _settings(request)).of(asked)
    return Message(stain_vectors.distances(drawn, matrices, moments))


def alignment(request: Message, rows: pd.DataFrame, folder: Path) -> Message:
    """Gives each of some patches the stain matrix that comes with it."""
    asked = rows_asked(request, rows)
    matrices = _numbers(request, "matrices", (len(asked), 3, 2)).astype(np.float32)
    link_all(folder, measuring.aligned(list(asked.path), matrices, _settings(request)))
    return Message({})


JOBS = {"stains": stains, "distances": distances, "alignment": alignment}


def _measured(request: Message, asked: pd.DataFrame, settings: StainSettings) -> measuring.Stains:
    contents = hashlib.sha256("\n".join([str(request.fields.get("data")), *asked.path]).encode()).hexdigest()
    return measuring.measure(list(asked.path), settings, contents, cache_folder())


def _settings(request: Message) -> StainSettings:
    given: Any = request.fields.get("separation")
    try:
        return StainSettings(**given)
    except (TypeError, ValueError) as error:
        raise UserError(f"settings of a separation that cannot be: {error}") from None


def _numbers(request: Message, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    array = request.arrays.get(name, np.zeros(0))
    fits = array.dtype.kind == "f" and array.ndim == len(shape)
    if not fits or any(length not in (None, given) for length, given in zip(shape, array.shape)):
        raise UserError(f"a request whose {name} are not numbers of the shape {shape}")
    if not np.isfinite(array).all():
        raise UserError(f"a request whose {name} are not finite")
    return array
