"""Controls of FNST: copies of rare images, as many as it makes, changed in the usual ways and kept on disk.

repeated    as they are
turned      by right angles and mirrored: the seven that differ from the image, one after the other
jitter      brightness, contrast, saturation and hue
hed         haematoxylin, eosin and residual (`preprocessing.stain_augment.hed_jitter`)
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import pandas as pd

from preprocessing import stain_augment
from tffapps import Pool, cache_folder
from tffapps.data import made
from tffapps.fnst import Augmentation
from tffapps.fnst.exchange import repeated

TURNS = 7
LIGHT = 0.25  # of brightness, contrast and saturation: factors within 1 ± this
HUE = 0.05  # of the colour circle, either way
_STREAMS = {"turned": 1, "jitter": 2, "hed": 3}


def turned(images: np.ndarray, numbers: Sequence[int]) -> list[np.ndarray]:
    """`numbers` from 1 to TURNS: right angles, and from 4 on mirrored as well."""
    return [
        np.ascontiguousarray(np.rot90(image[:, ::-1] if number >= 4 else image, number % 4))
        for image, number in zip(images, numbers)
    ]  # fmt: skip


def jittered(images: np.ndarray, numbers: Sequence[Sequence[float]]) -> np.ndarray:
    """`numbers`: for each image factors of brightness, contrast and saturation, and a turn of the hue."""
    result = np.empty_like(images)
    for row, (image, (brightness, contrast, saturation, hue)) in enumerate(zip(images, numbers)):
        pixels = image.astype(np.float32) / 255 * brightness
        mean = pixels.mean()
        pixels = np.clip(mean + contrast * (pixels - mean), 0, 1)
        hsv = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)  # hue in degrees
        hsv[..., 0] = (hsv[..., 0] + 360 * hue) % 360
        hsv[..., 1] = np.clip(hsv[..., 1] * saturation, 0, 1)
        result[row] = np.rint(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB) * 255).clip(0, 255)
    return result


WAYS: dict[str, Callable[..., Any]] = {"turned": turned, "jitter": jittered, "hed": stain_augment.hed_jitter}


def copies(how: str, federation: Pool, augmentation: Augmentation, seed: int) -> tuple[pd.DataFrame, str]:
    """Rows of the copies that all clients make, and a key that changes with any of them.

    Args:
      how: "repeated" or one of WAYS.
      federation: whose rare images they are of.
      augmentation: how many of each.
      seed: decides what is drawn.
    """
    rows = repeated(federation, augmentation)
    if how == "repeated":
        return rows, ""
    numbers = _numbers(how, rows, np.random.default_rng([seed, _STREAMS[how]]))
    settings = {"made": "fnst copies", "version": 1, "how": how}
    paths = made.made_paths(list(rows.path), numbers, made.Apart(WAYS[how]), settings, cache_folder() / "copies", how)
    names = "\n".join(pathlib.Path(path).name for path in paths)  # hashes of all that each depends on
    return rows.assign(path=paths), hashlib.sha256(names.encode()).hexdigest()[:16]


def _numbers(how: str, rows: pd.DataFrame, generator: np.random.Generator) -> list:
    """What each copy is made with; copies of an image are turned differently until all turns have been used."""
    count = len(rows)
    if how == "turned":
        first = {path: int(generator.integers(TURNS)) for path in rows.path.unique()}
        return (1 + (rows.path.map(first) + rows.groupby("path").cumcount()) % TURNS).tolist()
    if how == "jitter":
        drawn = generator.uniform(-1, 1, (count, 4))
        return np.column_stack([1 + LIGHT * drawn[:, :3], HUE * drawn[:, 3]]).tolist()
    drawn = generator.uniform(-stain_augment.JITTER, stain_augment.JITTER, (count, 6))
    drawn[:, :3] += 1
    return drawn.tolist()
