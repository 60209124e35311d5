"""The stain matrices of one client, wherever they are: in this process, or at the client's site, which keeps them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from models.gaussian_mixture import Mixture
from tffapps import Engine, Message, understood
from tffapps.engine.values import AtSite
from tffapps.evaluation.distances import Gaussian, frechet_between
from tffapps.federated.client_mixtures import client_mixtures
from tffapps.federated.denoising import NoiselessData
from tffapps.federated.moments import Moments, federated_moments
from tffapps.fedsda import separation, stain_model, stain_release
from tffapps.fedsda.stain_vectors import DISTANCES, NUMBERS, as_vectors, distances, scale, standardised
from tffapps.wire import jobs


class StainSource(Protocol):
    """One client's stain matrices."""

    @property
    def client(self) -> str: ...

    @property
    def count(self) -> int: ...

    @property
    def key(self) -> str:
        """Changes with any of the matrices."""

    def table(self) -> tf.data.Dataset:
        """One table of float64 vectors (n, 6), to be read where the client is."""

    def data(self, moments: Moments, *, batch: int, epochs: int, seed: int, rate: float) -> NoiselessData:
        """What the client trains its denoiser on in a round."""

    def distances(self, drawn: np.ndarray, moments: Moments) -> dict[str, float]:
        """DISTANCES of standardised vectors (m, 6) drawn for this client from its own."""

    def gaussian(self) -> Gaussian:
        """Fitted to its vectors."""


class LocalStains:
    """Matrices (n, 3, 2) in this process."""

    def __init__(self, client: str, matrices: np.ndarray) -> None:
        self.client, self.count, self._matrices = client, len(matrices), matrices
        self.key = hashlib.sha256(np.ascontiguousarray(matrices).tobytes()).hexdigest()[:16]

    def table(self) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(as_vectors(self._matrices).astype(np.float64))

    def data(self, moments: Moments, *, batch: int, epochs: int, seed: int, rate: float) -> NoiselessData:
        vectors = standardised(self._matrices, moments)
        return stain_model.data(vectors, batch=batch, epochs=epochs, seed=seed, rate=rate)

    def distances(self, drawn: np.ndarray, moments: Moments) -> dict[str, float]:
        return distances(drawn, self._matrices, moments)

    def gaussian(self) -> Gaussian:
        return Gaussian.of(as_vectors(self._matrices))

    def released(self, noise: float, generator: np.random.Generator) -> np.ndarray:
        """What it sends under differential privacy."""
        return stain_release.released(self._matrices, noise, generator)


@dataclasses.dataclass(frozen=True)
class SiteStains:
    """Matrices that a site has measured (`tffapps.fedsda.jobs`): the vectors are in a file there."""

    engine: Engine
    client: str
    request: Message  # that had them measured
    count: int
    key: str
    row: dict[str, Any]  # of `separation.csv`
    fitted: Gaussian | None  # None where nothing could be measured

    @classmethod
    def of(cls, engine: Engine, site: str, request: Message, answer: Message) -> SiteStains:
        fields, arrays = answer.fields, answer.arrays
        count = int(fields["count"])
        row = {name: fields["row"][name] for name in separation.COLUMNS}
        fitted = Gaussian(arrays["mean"].reshape(NUMBERS), arrays["factor"].reshape(-1, NUMBERS)) if count else None
        return cls(engine, site, request, count, str(fields["key"]), row, fitted)

    def _file(self) -> str:
        return jobs.made_path(self.request.identity, 0)

    def table(self) -> tf.data.Dataset:
        return stain_model.vectors_in_file(self._file())

    def data(self, moments: Moments, *, batch: int, epochs: int, seed: int, rate: float) -> NoiselessData:
        return stain_model.data_in_file(
            self._file(), self.count, moments, batch=batch, epochs=epochs, seed=seed, rate=rate
        )

    def distances(self, drawn: np.ndarray, moments: Moments) -> dict[str, float]:
        fields = {**self.request.fields, jobs.JOB: "fedsda/distances"}
        arrays = {**self.request.arrays, "drawn": drawn, "mean": moments.mean, "std": moments.std}
        answer = self.engine.ask({self.client: Message(fields, arrays)})[self.client].fields
        with understood("fedsda/distances"):
            return {name: float(answer[name]) for name in DISTANCES}

    def gaussian(self) -> Gaussian:
        assert self.fitted is not None  # asked only of clients whose stains were measured
        return self.fitted


class FederationStains(NamedTuple):
    """The stains of a federation's clients, and what all of them are standardised by."""

    sources: Sequence[StainSource]
    moments: Moments

    @classmethod
    def of(cls, sources: Sequence[StainSource]) -> FederationStains:
        """To be called inside `open_engine`."""
        tables = [AtSite(source.client, source.table()) for source in sources]
        return cls(sources, federated_moments(tables, NUMBERS))

    def mixtures(self, components: int) -> list[Mixture]:
        """Each client's, of its standardised vectors; to be called inside `open_engine`."""
        mean, deviation = tf.constant(self.moments.mean), tf.constant(scale(self.moments))

        def numbered(number: int, table: tf.data.Dataset) -> tf.data.Dataset:
            return table.map(lambda rows: (tf.constant(number, tf.int32), (rows - mean) / deviation))

        tables = [AtSite(source.client, numbered(number, source.table())) for number, source in enumerate(self.sources)]
        return client_mixtures(tables, NUMBERS, components)

    @property
    def key(self) -> str:
        """Changes with any matrix."""
        return hashlib.sha256(" ".join(source.key for source in self.sources).encode()).hexdigest()[:16]


def distances_between(sources: Sequence[StainSource]) -> list[float]:
    """Fréchet distances between the clients' own stains, every two, in units of the federation's deviations."""
    gaussians = [source.gaussian() for source in sources]
    spread = scale(_together([source.count for source in sources], gaussians))
    scaled = [gaussian.divided(spread) for gaussian in gaussians]
    return [frechet_between(a, b) for index, a in enumerate(scaled) for b in scaled[:index]]


def _together(counts: Sequence[int], gaussians: Sequence[Gaussian]) -> Moments:
    """Of all rows, from what is known of each client's."""
    total = sum(counts)
    mean = sum(count * gaussian.mean for count, gaussian in zip(counts, gaussians)) / total
    squares = sum(
        (count - 1) * (gaussian.factor**2).sum(axis=0) + count * (gaussian.mean - mean) ** 2
        for count, gaussian in zip(counts, gaussians)
    )
    return Moments(np.asarray(mean), np.sqrt(np.asarray(squares) / total))
