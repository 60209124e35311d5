"""gaussian-dp: each client's Gaussian of its stains under differential privacy, sent once for all rounds and seeds."""

from __future__ import annotations

import dataclasses
import zlib

import numpy as np

from tffapps import UserError
from tffapps.fedsda import GAUSSIAN_DP, LEARNING_SEED, stain_release
from tffapps.fedsda.stain_mixtures import StainStatistics
from tffapps.fedsda.stain_source import FederationStains, LocalStains
from tffapps.fedsda.stain_vectors import standardised


@dataclasses.dataclass(frozen=True)
class NoisedStains(StainStatistics):
    """Its mixtures are of places, not of standardised vectors."""

    epsilon: float = 0.0

    @classmethod
    def released_by(cls, stains: FederationStains, epsilon: float, delta: float) -> NoisedStains:
        noise, mixtures = stain_release.multiplier(epsilon, delta), []
        for source in stains.sources:
            if not isinstance(source, LocalStains):
                raise UserError(f"--stain-model {GAUSSIAN_DP}: cannot be had across sites; choose a denoiser")
            # Of the same patches the same numbers, in every fold and for every seed: nothing is released twice.
            generator = np.random.default_rng([LEARNING_SEED, zlib.crc32(source.key.encode()), 0xD9])
            mixtures.append(stain_release.gaussian_of(source.released(noise, generator), source.count))
        return cls(GAUSSIAN_DP, mixtures, stains.moments, {}, epsilon=epsilon)

    @property
    def parameters(self) -> int:
        return stain_release.SENT * self.clients

    def sample_standardised(self, numbers: np.ndarray, seed: int) -> np.ndarray:
        return standardised(self.draw(numbers, seed), self.moments)

    def draw(self, numbers: np.ndarray, seed: int) -> np.ndarray:
        return stain_release.directions(self._sample(numbers, seed, stain_release.PLACES))
