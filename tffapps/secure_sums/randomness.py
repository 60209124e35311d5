"""Gaussian noise from the system's randomness: who has seen some of it cannot work out the rest."""

import os

import numpy as np

_PIECE = 2**19  # pairs at a time


def gaussian(size: int) -> np.ndarray:
    """Standard normal numbers, by Box and Muller's transform of 53 random bits each."""
    found = np.empty(2 * ((size + 1) // 2))
    for start in range(0, len(found), 2 * _PIECE):
        part = found[start : start + 2 * _PIECE]
        bits = np.frombuffer(os.urandom(8 * len(part)), np.uint64) >> np.uint64(11)
        half = len(part) // 2
        radius = np.sqrt(-2 * np.log((bits[:half] + 1.0) * 2.0**-53))  # of (0, 1]: its logarithm is finite
        angle = 2 * np.pi * 2.0**-53 * bits[half:]
        part[:half], part[half:] = radius * np.cos(angle), radius * np.sin(angle)
    return found[:size]
