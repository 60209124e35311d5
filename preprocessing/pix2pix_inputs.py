"""Pairs of an image and its label from two folders, as arrays."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

from preprocessing import image_bytes
from preprocessing.errors import Rejected, UserError
from preprocessing.files import check_distinct, read_image
from preprocessing.progress import track
from preprocessing.style_inputs import list_images

_LIGHT = (1, 255)  # what the lighter of a label's two values may be; the darker one is 0
_TINY = 1e-3  # share of a pixel that rounding may make


def list_pairs(images: Path, labels: Path) -> list[tuple[Path, Path]]:
    """Files of the same name but for its ending, sorted."""
    found = []
    for folder in (images, labels):
        files = list_images(folder)
        check_distinct((file, folder / file.stem) for file in files)
        found.append({file.stem: file for file in files})
    first, second = found
    for own, other, folder, what in ((first, second, labels, "label"), (second, first, images, "image")):
        alone = sorted(own.keys() - other.keys())
        if alone:
            more = f", and so have {len(alone) - 1} others" if len(alone) > 1 else ""
            raise UserError(f"{own[alone[0]]}: has no {what} of its name in {folder}{more}; add or remove")
    return [(first[name], second[name]) for name in sorted(first)]


def read_pairs(
    pairs: list[tuple[Path, Path]], size: int | None, channels: int, name: str
) -> tuple[np.ndarray, np.ndarray, str] | None:
    """Images uint8 (n, height, width, channels), labels uint8 (n, height, width), 1 at boundaries, and what these are
    in the files, "dark" or "light"; None where no pair can be read. Those that cannot are left out with a line each.

    Boundaries are the rarer of the two values over all labels. With `size` everything is brought to that many pixels a
    side; a pixel is boundary then if any of those it stands for is, or else thin boundaries would break. Without it all
    images must be of one size.
    """
    images: list[np.ndarray] = []
    shares: list[np.ndarray] = []  # of light pixels, float32 (height, width)
    for at, beside in track(pairs, len(pairs), f"{name}: read"):
        image = _decoded(at, channels, name)
        label = _decoded(beside, 1, name) if image is not None else None
        if image is None or label is None:
            continue
        share = _light(beside, label)
        if image.shape[:2] != label.shape:
            raise UserError(f"{beside}: is {_shown(label)} pixels, its image {_shown(image)}; both must be the same")
        if images and not size and image.shape != images[0].shape:
            raise UserError(f"{at}: is {_shown(image)} pixels, others are {_shown(images[0])}; give --size")
        images.append(_resized(image, size, cv2.INTER_CUBIC))
        shares.append(_resized(share, size, cv2.INTER_NEAREST))
    if not images:
        return None
    mean = float(np.mean([share.mean() for share in shares]))
    if mean in (0.0, 1.0):
        raise UserError(f"{pairs[0][1].parent}: all labels are of one value; boundaries must be marked in them")
    light = mean < 0.5
    labels = np.stack([(share > _TINY if light else share < 1 - _TINY).astype(np.uint8) for share in shares])
    stacked = np.stack(images)
    return stacked[..., None] if channels == 1 else stacked[..., ::-1], labels, "light" if light else "dark"


def _decoded(file: Path, channels: int, name: str) -> np.ndarray | None:
    try:
        return image_bytes.decode(read_image(file), cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR)
    except Rejected as rejected:
        print(f"preprocessing.{name}: left out: {file}: {rejected}", file=sys.stderr)
        return None


def _light(file: Path, label: np.ndarray) -> np.ndarray:
    """1 at light pixels, 0 at dark ones."""
    values = np.unique(label).tolist()
    if values not in ([0], *([one] for one in _LIGHT), *([0, one] for one in _LIGHT)):
        found = ", ".join(map(str, values[:5])) + (", …" if len(values) > 5 else "")
        raise UserError(f"{file}: holds the values {found}; a label has 0 and 255, or 0 and 1; store it without loss")
    return (label > 0).astype(np.float32)


def _resized(image: np.ndarray, size: int | None, enlarging: int) -> np.ndarray:
    if size is None or image.shape[:2] == (size, size):
        return image
    return cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA if size < min(image.shape[:2]) else enlarging)


def _shown(image: np.ndarray) -> str:
    return f"{image.shape[0]}x{image.shape[1]}"
