"""From bytes to optical densities and back, the tissue mask, and the pixels a stain matrix is learned from.

Bytes lie as planes here: (patches, 3, pixels). A byte has 256 values, so each curve is a table of them.
"""

from __future__ import annotations

import functools

import cv2
import numpy as np

from preprocessing.stain_settings import StainSettings

_LEVELS = np.arange(256)
_OPTICAL_DENSITY = -np.log(np.maximum(_LEVELS, 1) / 255).astype(np.float32)
_LINEAR = np.where(_LEVELS <= 0.04045 * 255, _LEVELS / 255 / 12.92, ((_LEVELS / 255 + 0.055) / 1.055) ** 2.4)  # sRGB
# Each channel's part of CIE Y (3, 256).
_LUMINANCE = np.outer((0.212671, 0.715160, 0.072169), _LINEAR).astype(np.float32)


def planes(images: np.ndarray) -> np.ndarray:
    """(patches, height, width, 3 or 4) to (patches, 3, pixels); what is transparent shows the slide's white."""
    flat = images.reshape(len(images), -1, images.shape[-1])
    if flat.shape[2] == 4:
        colour, alpha = flat[..., :3].astype(np.uint16), flat[..., 3:].astype(np.uint16)
        flat = ((colour * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return np.ascontiguousarray(flat.transpose(0, 2, 1))


def optical_density(bytes_: np.ndarray) -> np.ndarray:
    """−ln(max(I, 1) / 255), float32, of the same shape (patches, 3, pixels)."""
    return cv2.LUT(bytes_.reshape(-1, bytes_.shape[2]), _OPTICAL_DENSITY).reshape(bytes_.shape)


def tissue(bytes_: np.ndarray, luminosity: float) -> np.ndarray:
    """Where the Lab lightness is below `luminosity` (patches, pixels). Lightness rises with Y, so Y is compared."""
    lightness = 100 * luminosity
    limit = ((lightness + 16) / 116) ** 3 if lightness > 8 else lightness * 27 / 24389
    red, green, blue = (cv2.LUT(bytes_[:, channel], _LUMINANCE[channel]) for channel in range(3))
    return red + green + blue < limit


def sample(bytes_: np.ndarray, mask: np.ndarray, settings: StainSettings) -> np.ndarray:
    """Optical densities (patches, 3, at most settings.sample) of tissue pixels in random order, then zeros."""
    order = _random_order(mask.shape[1], settings.seed)
    # As many for every patch, whatever its neighbours have: a patch's numbers must not depend on its company.
    chosen = np.full((len(mask), 3, min(mask.shape[1], settings.sample)), 255, np.uint8)  # white has density 0
    for of_patch, patch, here in zip(chosen, bytes_, mask):
        picked = order[here[order]][: chosen.shape[2]]
        of_patch[:, : len(picked)] = patch.take(picked, axis=1)
    return optical_density(chosen)


@functools.lru_cache(maxsize=4)
def _random_order(pixels: int, seed: int) -> np.ndarray:
    """Random, so that the first few are as good a sample as all; the same for all patches of a size."""
    return np.random.default_rng(seed).permutation(pixels)
