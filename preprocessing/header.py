"""What the readers of formats share: what a file says of itself, and values brought to 8 or 16 bits."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Header:
    """What is known of an image before it is decoded."""

    kind: str
    width: int
    height: int
    slices: int = 1  # frames, or slices of a volume: one of them becomes the image
    owner: str = dataclasses.field(default="", repr=False)  # whose image it is: to be made a pseudonym, never shown
    burned_in: bool = False  # whether it says that text is written into the picture


def stretched(values: np.ndarray, counted: np.ndarray | None = None, share: float = 0.0) -> np.ndarray:
    """From 0 to 1 between the lowest and the highest value, or between the quantiles `share` and 1 - `share`.

    Only finite values that are `counted` decide.
    """
    values = np.asarray(values, np.float64)
    finite = np.isfinite(values)
    deciding = values[finite if counted is None else finite & counted]
    if not deciding.size:
        return np.zeros(values.shape)
    low, high = np.quantile(deciding, [share, 1 - share]) if share else (deciding.min(), deciding.max())
    if share and low == high:  # nearly all of one value, such as a mask
        low, high = deciding.min(), deciding.max()
    values = np.where(finite, values, low)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num((values - low) / (high - low)) if high > low else np.zeros(values.shape)


def to_levels(share: np.ndarray, kind: type = np.uint16) -> np.ndarray:
    """Values from 0 to 1, others cut off, as all the levels of uint8 or uint16."""
    return np.rint(np.clip(share, 0, 1) * np.iinfo(kind).max).astype(kind)
