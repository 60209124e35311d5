"""The stain matrices of one client, wherever they are: in this process, or at the client's site, which keeps them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from tffapps.engine import Engine
from tffapps.evaluation.distances import Gaussian, frechet_between, frechet_distance, matrix_wasserstein
from tffapps.federated.denoising import NoiselessData
from tffapps.federated.moments import Moments
from tffapps.fedsda import separation, stain_model
from tffapps.fedsda.stain_vectors import NUMBERS, as_vectors, scale, standardised
from tffapps.wire import jobs
from tffapps.wire.messages import Message, understood


class Distances(NamedTuple):
    """Of drawn from real stains, in units of the federation's standard deviations."""

    fd: float
    wd: float


class StainSource(Protocol):
    @property
    def count(self) -> int: ...

    @property
    def key(self) -> str:
        """Changes with any of the matrices."""

    def table(self) -> tf.data.Dataset:
        """One table of float64 vectors (n, 6), to be read where the client is."""

    def data(self, moments: Moments, *, batch: int, epochs: int, seed: int, rate: float) -> NoiselessData:
        """What the client trains its denoiser on in a round."""

    def distances(self, drawn: np.ndarray, moments: Moments) -> Distances:
        """Of vectors (m, 6) drawn for this client from its own, both standardised."""

    def gaussian(self) -> Gaussian:
        """Fitted to its vectors."""


class Held:
    """Matrices (n, 3, 2) in this process."""

    def __init__(self, matrices: np.ndarray) -> None:
        self._matrices, self.count = matrices, len(matrices)
        self.key = hashlib.sha256(np.ascontiguousarray(matrices).tobytes()).hexdigest()[:16]

    def table(self) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(as_vectors(self._matrices).astype(np.float64))

    def data(self, moments: Moments, *, batch: int, epochs: int, seed: int, rate: float) -> NoiselessData:
        values = standardised(self._matrices, moments)
        return stain_model.data(values, batch=batch, epochs=epochs, seed=seed, rate=rate)

    def distances(self, drawn: np.ndarray, moments: Moments) -> Distances:
        return distances(drawn, self._matrices, moments)

    def gaussian(self) -> Gaussian:
        return Gaussian.of(as_vectors(self._matrices))


@dataclasses.dataclass(frozen=True)
class AtItsSite:
    """Matrices that a site has measured (`tffapps.fedsda.jobs`): the vectors are in a file there."""

    engine: Engine
    site: str
    request: Message  # that had them measured
    count: int
    key: str
    row: dict[str, Any]  # of `separation.csv`
    fitted: Gaussian | None  # None where nothing could be measured

    @classmethod
    def of(cls, engine: Engine, site: str, request: Message, answer: Message) -> AtItsSite:
        words, arrays = answer.fields, answer.arrays
        count = int(words["count"])
        row = {name: words["row"][name] for name in separation.COLUMNS}
        fitted = Gaussian(arrays["mean"].reshape(NUMBERS), arrays["factor"].reshape(-1, NUMBERS)) if count else None
        return cls(engine, site, request, count, str(words["key"]), row, fitted)

    def _file(self) -> str:
        return jobs.made_path(self.request.identity, 0)

    def table(self) -> tf.data.Dataset:
        return stain_model.vectors_in_file(self._file())

    def data(self, moments: Moments, *, batch: int, epochs: int, seed: int, rate: float) -> NoiselessData:
        return stain_model.data_in_file(
            self._file(), self.count, moments, batch=batch, epochs=epochs, seed=seed, rate=rate
        )

    def distances(self, drawn: np.ndarray, moments: Moments) -> Distances:
        words = {**self.request.fields, jobs.JOB: "stain distances"}
        arrays = {**self.request.arrays, "drawn": drawn, "mean": moments.mean, "std": moments.std}
        answer = self.engine.ask({self.site: Message(words, arrays)})[self.site].fields
        with understood("stain distances"):
            return Distances(float(answer["fd"]), float(answer["wd"]))

    def gaussian(self) -> Gaussian:
        assert self.fitted is not None  # asked only of clients whose stains were measured
        return self.fitted


def distances(drawn: np.ndarray, matrices: np.ndarray, moments: Moments) -> Distances:
    own = standardised(matrices, moments)
    return Distances(frechet_distance(drawn, own), matrix_wasserstein(drawn, own))


def distances_between(sources: Sequence[StainSource]) -> list[float]:
    """Fréchet distances between the clients' own stains, every two, in the same units."""
    found = [source.gaussian() for source in sources]
    spread = scale(together([source.count for source in sources], found))
    found = [one.divided(spread) for one in found]
    return [frechet_between(a, b) for place, a in enumerate(found) for b in found[:place]]


def together(counts: Sequence[int], gaussians: Sequence[Gaussian]) -> Moments:
    """Of all rows, from what is known of each client's."""
    total = sum(counts)
    mean = sum(count * one.mean for count, one in zip(counts, gaussians)) / total
    squares = sum(
        (count - 1) * (one.factor**2).sum(axis=0) + count * (one.mean - mean) ** 2
        for count, one in zip(counts, gaussians)
    )
    return Moments(np.asarray(mean), np.sqrt(np.asarray(squares) / total))
