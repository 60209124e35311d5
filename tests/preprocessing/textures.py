"""Drawn textures: images that differ in style and have no content to speak of."""

from __future__ import annotations

import numpy as np


def textures(size: int = 32) -> np.ndarray:
    """uint8 (2, size, size, 3): red stripes, and a green chessboard."""
    y, x = np.mgrid[:size, :size]
    stripes, squares = np.sin(x * 1.5) > 0, (x // 4 + y // 4) % 2
    first = np.stack([stripes * 200 + 20, stripes * 30 + 60, np.full_like(x, 120)], -1)
    second = np.stack([np.full_like(x, 30), squares * 180 + 40, squares * 90], -1)
    return np.stack([first, second]).astype(np.uint8)
