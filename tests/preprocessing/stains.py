"""Drawn H&E patches of which stains and densities are known: nuclei in stroma, put into colour by Beer and Lambert."""

from __future__ import annotations

import cv2
import numpy as np

TYPICAL = np.array([[0.60, 0.16], [0.72, 0.92], [0.34, 0.30]])  # haematoxylin, eosin; not yet of unit length
BROWN = np.array([[0.65, 0.27], [0.70, 0.57], [0.29, 0.78]])  # haematoxylin and DAB


def unit(columns):
    return columns / np.linalg.norm(columns, axis=-2, keepdims=True)


def angles(first, second):
    """Degrees between the columns of (…, 3, 2) and those of another."""
    return np.degrees(np.arccos(np.clip((first * second).sum(axis=-2), -1, 1)))


def matrix(rng):
    """One laboratory's stains: a few degrees from any other's."""
    return unit(np.maximum(TYPICAL + rng.normal(0, 0.05, (3, 2)), 0.02))


def densities(rng, size=96, overlap=0.1):
    """Density maps (2, size, size). `overlap` is how much of the other stain lies on nuclei and on stroma at most."""
    nuclei = _blobs(rng, size, rng.integers(12, 30), 4, 8)
    holes = _blobs(rng, size, rng.integers(0, 3), 8, 18) * (1 - nuclei)
    chromatin, fibres, mixed = (_clouds(rng, size, scale) for scale in (2, 6, 4))
    mixed = overlap * np.clip(2 * mixed - 0.8, 0, 1)
    first = nuclei * (0.7 + 0.9 * chromatin) + (1 - nuclei) * mixed
    second = (1 - nuclei) * (0.25 + 0.9 * fibres) + nuclei * 1.5 * mixed[::-1]
    return np.stack([first, second]) * (1 - holes)


def render(stains, maps, rng, noise=1.0):
    """The uint8 image (height, width, 3) of w and h, with a camera's noise in grey levels."""
    light = 255 * np.exp(-np.einsum("cs,shw->hwc", stains, maps))
    return np.clip(np.rint(light + rng.normal(0, noise, light.shape)), 0, 255).astype(np.uint8)


def patches(count, seed=0, size=96, overlap=0.1, noise=1.0):
    """Images (count, size, size, 3) and their true matrices (count, 3, 2)."""
    rng = np.random.default_rng(seed)
    truths = np.stack([matrix(rng) for _ in range(count)])
    return np.stack([render(truth, densities(rng, size, overlap), rng, noise) for truth in truths]), truths


def _blobs(rng, size, count, smallest, largest):
    """1 inside of ellipses, 0 outside, with soft edges."""
    rows, columns = np.mgrid[:size, :size]
    result = np.zeros((size, size))
    for _ in range(count):
        y, x = rng.uniform(0, size, 2)
        long, short = rng.uniform(smallest, largest, 2)
        turn = rng.uniform(0, np.pi)
        along = (columns - x) * np.cos(turn) + (rows - y) * np.sin(turn)
        across = (rows - y) * np.cos(turn) - (columns - x) * np.sin(turn)
        distance = np.hypot(along / long, across / short)
        result = np.maximum(result, 1 / (1 + np.exp(6 * (distance - 1))))
    return result


def _clouds(rng, size, scale):
    field = cv2.GaussianBlur(rng.normal(size=(size, size)), (0, 0), scale)
    return (field - field.min()) / np.ptp(field)
