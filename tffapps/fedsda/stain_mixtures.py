"""The rival that needs no network: every client's stains as a Gaussian, or as a mixture of a few, in one round."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from models.gaussian_mixture import Mixture, draw
from tffapps import UserError
from tffapps.federated.moments import Moments
from tffapps.fedsda import GAUSSIAN_DP, stain_model
from tffapps.fedsda.stain_source import FederationStains
from tffapps.fedsda.stain_vectors import NUMBERS

STATISTICS = ("gaussian", "mixture", GAUSSIAN_DP)
_NUMBERS = NUMBERS + NUMBERS * (NUMBERS + 1) // 2  # of a component: mean and covariance


@dataclasses.dataclass(frozen=True)
class StainStatistics:
    """Draws stain matrices of any client of a federation, as `diffusion.StainModel` does."""

    block: str
    mixtures: Sequence[Mixture]  # each client's, of standardised vectors
    moments: Moments
    scores: dict[str, float]  # as of a denoiser's last round
    record: None = None  # nothing was trained
    rounds: int = 1
    epochs: int = 0

    @classmethod
    def of(cls, block: str, stains: FederationStains, components: int) -> StainStatistics:
        """Fitted by the clients; to be called inside `open_engine`."""
        mixtures = stains.mixtures(components if block == "mixture" else 1)
        for source, mixture in zip(stains.sources, mixtures):
            if not all(np.isfinite(part).all() for part in mixture) or not mixture.weights.sum() > 0:
                raise UserError(f"{source.client}: its stains have no {block}: it sent numbers that cannot be")
        return cls(block, mixtures, stains.moments, {})

    @property
    def clients(self) -> int:
        return len(self.mixtures)

    @property
    def parameters(self) -> int:
        """Sent by all clients together."""
        used = sum(int((mixture.weights > 0).sum()) for mixture in self.mixtures)
        return used * (_NUMBERS + 1) if self.block == "mixture" else used * _NUMBERS

    def sample_standardised(self, numbers: np.ndarray, seed: int) -> np.ndarray:
        """A vector for each client's number (n), float32 (n, 6)."""
        return self._sample(numbers, seed, NUMBERS)

    def _sample(self, numbers: np.ndarray, seed: int, dimensions: int) -> np.ndarray:
        vectors = np.empty((len(numbers), dimensions), np.float32)
        for number in np.unique(numbers):
            here = np.flatnonzero(numbers == number)
            vectors[here] = draw(self.mixtures[number], len(here), np.random.default_rng([seed, int(number), 0x6A55]))
        return vectors

    def draw(self, numbers: np.ndarray, seed: int) -> np.ndarray:
        """A matrix (3, 2) for each client's number (n)."""
        return stain_model.matrices_of(self.sample_standardised(numbers, seed), self.moments)
