"""The patch of a backdoor attack: a small chequered square in the lower right corner of an image."""

import os
from collections.abc import Sequence

import cv2
import numpy as np

from preprocessing.image_bytes import decode
from tffapps.data.cache import cached_images
from tffapps.errors import UserError
from tffapps.home import cache_folder

_CELLS = 3  # of the chequer, on a side


def patched(paths: Sequence[str], patch: float) -> list[str]:
    """PNG copies of images, each with the patch, in the cache."""
    made, rejected = cached_images(paths, stamp, {"patch": patch}, cache_folder() / "patched")
    for path, why in rejected.items():
        raise UserError(f"{path}: cannot be given the patch of a backdoor: {why}")
    return [os.path.abspath(str(path)) for path in made]


def stamp(contents: bytes, patch: float) -> bytes:
    """An encoded image with the patch, `patch` of its shorter side long; depth and channels stay."""
    image = decode(contents, cv2.IMREAD_UNCHANGED)
    side = max(1, round(patch * min(image.shape[:2])))
    cell = np.arange(side) * _CELLS // side
    bright = np.where((cell[:, None] + cell) % 2 == 0, np.iinfo(image.dtype).max, 0).astype(image.dtype)
    image[-side:, -side:] = bright if image.ndim == 2 else bright[..., None]
    if image.ndim == 3 and image.shape[2] == 4:
        image[-side:, -side:, 3] = np.iinfo(image.dtype).max  # not transparent
    return cv2.imencode(".png", image)[1].tobytes()
