"""Amplitude normalisation (HarmoFL, Jiang et al. 2022; Algorithm 3 of FedSDA): "amp-norm".

An image's Fourier transform has an amplitude, which is mostly colour and contrast, and a phase, which is mostly
structure. Every image keeps its phase and is given the amplitude that all clients have on average, within a band of low
frequencies: those of at most ⌊L · side⌋ periods across and down. HarmoFL runs it with L = 0, which replaces the mean
colour alone; with L = 0.5 the whole amplitude is replaced, as FedSDA prints the algorithm, and ghosts of other images
come with it.

    at each client, for each batch    A ← (1 − v) A + v · mean of the batch's amplitudes, from A = 0
    at the server                     Ā = mean of the clients' A

Deviations:
  - a client's A is divided by 1 − (1 − v)^batches, the part of it that is not the zero it began with: else the images
    of clients with few batches would come out darker, at v = 0.1 and ten batches by a third;
  - a coefficient that is zero but for rounding has no phase and stays zero: else a blank patch would become a bright
    point in a corner.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import fft

DECAY = 0.1  # v; HarmoFL's code
WHOLE = 0.5  # L: every frequency
_AT_ONCE = 2**20  # pixels transformed at once: about 60 MB
_ROUNDING = 1e-6  # of a transform in float32, as a share of the image's norm


class AmplitudeMean:
    """A client's running mean of the amplitudes of uint8 images of one size, `shape` = (height, width)."""

    def __init__(self, decay: float, shape: Sequence[int]) -> None:
        if not 0 < decay <= 1:
            raise ValueError(f"decay {decay}: must be above 0 and at most 1")
        self.decay, self.shape, self.batches = decay, (*shape[:2], 3), 0
        self._mean = np.zeros((shape[0], shape[1] // 2 + 1, 3), np.float32)

    def add(self, images: np.ndarray) -> None:
        """One batch (n, height, width, 3)."""
        _check(images, self.shape)
        if not len(images):
            raise ValueError("a batch without images has no amplitude")
        total = sum(np.abs(spectra).sum(axis=0) for _, spectra in _spectra(images))
        self._mean += np.float32(self.decay) * (total / np.float32(len(images)) - self._mean)
        self.batches += 1

    @property
    def value(self) -> np.ndarray:
        """The mean amplitude, float32 (height, width, 3), frequency 0 first."""
        if not self.batches:
            raise ValueError("no batches: an amplitude needs at least one")
        return _whole(self._mean / np.float32(1 - (1 - self.decay) ** self.batches), self.shape[1])


def combine(amplitudes: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over clients, every client counting the same."""
    shapes = sorted({amplitude.shape for amplitude in amplitudes})
    if len(shapes) != 1:
        raise ValueError(f"amplitudes of one shape are needed, not {' and '.join(map(str, shapes)) or 'none'}")
    return np.mean(amplitudes, axis=0, dtype=np.float32)


def normalise(images: np.ndarray, amplitude: np.ndarray, band: float = WHOLE) -> np.ndarray:
    """uint8 images (n, height, width, 3) with their own phases and this amplitude (height, width, 3) in the band L."""
    _check(images, amplitude.shape)
    size = amplitude.shape[:2]
    half = amplitude[:, : size[1] // 2 + 1].astype(np.float32, copy=False)
    kept = ~_band(size, band)[..., np.newaxis]
    result = np.empty_like(images)
    for part, spectra in _spectra(images):
        own = np.abs(spectra)
        norm = np.sqrt(np.square(images[part], dtype=np.float32).sum(axis=(1, 2), keepdims=True))
        factors = np.where(own > _ROUNDING * norm, half / np.maximum(own, np.finfo(np.float32).tiny), 0)
        spectra *= np.where(kept, np.float32(1), factors)
        pictures = fft.irfft2(spectra, s=size, axes=(1, 2), overwrite_x=True, workers=os.cpu_count())
        result[part] = np.rint(np.clip(pictures, 0, 255)).astype(np.uint8)
    return result


def _band(size: Sequence[int], band: float) -> np.ndarray:
    """Whether each coefficient of a half spectrum is in the band, bool (height, width // 2 + 1)."""
    height, width = size
    most = math.floor(min(size) * band)
    rows, columns = np.minimum(np.arange(height), height - np.arange(height)), np.arange(width // 2 + 1)
    return np.maximum(rows[:, None], columns) <= (most if band < WHOLE else max(size))


def _spectra(images: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """(slice, half spectra complex64 (m, height, width // 2 + 1, 3)) of a few images at a time."""
    step = max(1, _AT_ONCE // (images.shape[1] * images.shape[2]))
    for part in (slice(start, start + step) for start in range(0, len(images), step)):
        yield part, fft.rfft2(images[part].astype(np.float32), axes=(1, 2), workers=os.cpu_count())


def _whole(half: np.ndarray, width: int) -> np.ndarray:
    """The other half, which for real images mirrors the first: (height, width // 2 + 1, 3) to (height, width, 3)."""
    rows, columns = -np.arange(len(half)), width - np.arange(half.shape[1], width)
    return np.concatenate([half, half[rows][:, columns]], axis=1)


def _check(images: np.ndarray, shape: tuple[int, ...]) -> None:
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3:
        raise TypeError(f"uint8 images (n, height, width, 3) are needed, not {images.dtype} {images.shape}")
    if images.shape[1:] != shape:
        sizes = " and ".join("{1}×{0}".format(*size) for size in (images.shape[1:3], shape))
        raise ValueError(f"images of one size only have amplitudes to be shared: {sizes} pixels; resize or crop them")
