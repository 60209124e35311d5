"""Drawn grains: cells around random points, darker at their boundaries."""

from __future__ import annotations

import numpy as np


def grains(count: int, size: int = 32, channels: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (count, size, size, channels) and labels uint8 (count, size, size), 1 at boundaries."""
    rng = np.random.default_rng(seed)
    places = np.stack(np.mgrid[:size, :size], -1).astype(np.float32)  # (size, size, 2)
    images, labels = [], []
    for _ in range(count):
        points = rng.random((6, 2), np.float32) * size
        nearest, second = np.sort(np.linalg.norm(places[:, :, None] - points, axis=-1), axis=-1)[..., :2].transpose(
            2, 0, 1
        )
        label = (second - nearest < 1.5).astype(np.uint8)
        grey = np.where(label, 60, 170) + rng.integers(-15, 16, (size, size))
        tint = np.array([1.0, 0.9, 0.8][:channels])
        images.append(np.rint(grey[..., None] * tint).astype(np.uint8))
        labels.append(label)
    return np.stack(images), np.stack(labels)
