"""Labels of micrographs: images of two values, grain and boundary; which of them is the boundary is found out.

Boundaries are thin, so they are the value with fewer pixels, and the same one in all of a client's labels. Values near
the two (an eighth of the way to the other at most) are theirs: JPEG makes such. Those further away are taken for
whichever is nearer as long as they look like the smoothed edges of lines: many different values, each rare, not a
quarter of the image together. All else is a label of something else and refused by name.
"""

import dataclasses
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np

from preprocessing import files, image_bytes
from tffapps.errors import UserError
from tffapps.files import short
from tffapps.progress import track

DARK, LIGHT = "dark", "light"
BOUNDARY, GRAIN = 255, 0  # in the masks made here
_NEAR = 1 / 8  # of the way to the other value: still this one
_MOST_BETWEEN = 1 / 4  # of a label's pixels: what smoothed edges may be
_MOST_OF_ONE = 1 / 100  # of a label's pixels, for any one value in between
_LEVELS = 256


@dataclasses.dataclass(frozen=True)
class Coding:
    """How a client's labels are written."""

    boundary: str  # "dark" or "light"
    low: int  # the dark value
    high: int  # the light value
    share: float  # of boundary pixels, over all labels

    def mask(self, label: np.ndarray) -> np.ndarray:
        """BOUNDARY and GRAIN, uint8, of a label."""
        dark = 2 * label.astype(np.int32) < self.low + self.high
        return np.where(dark == (self.boundary == DARK), BOUNDARY, GRAIN).astype(np.uint8)


def read_label(path: str, contents: bytes | None = None) -> np.ndarray:
    """A label's grey values, uint8 (height, width)."""
    try:
        label = image_bytes.decode(Path(path).read_bytes() if contents is None else contents, cv2.IMREAD_UNCHANGED)
    except OSError as error:
        raise UserError(f"{short(path)}: cannot be opened ({error.strerror}); check its permissions") from None
    except files.Rejected as rejected:
        raise UserError(f"{short(path)}: {rejected}; save the label again or remove it and its image") from None
    if label.dtype == np.uint16:
        label = (label if label.max() < _LEVELS else np.rint(label / 257)).astype(np.uint8)
    if label.dtype != np.uint8:
        raise UserError(f"{short(path)}: a label with values of type {label.dtype}; save it as an 8-bit grey image")
    if label.ndim == 3:
        if (label[..., :3] != label[..., :1]).any():
            raise UserError(f"{short(path)}: a coloured label; save it as a grey image of two values")
        label = label[..., 0]
    return label


def coding_of(client: str, paths: Sequence[str], progress: bool = False) -> tuple[Coding, list[tuple[int, int]]]:
    """How one client's labels are written, and their sizes (height, width); a UserError names what is no label."""

    def look(path: str) -> tuple[np.ndarray, tuple[int, int]]:
        label = read_label(path)
        return np.bincount(label.ravel(), minlength=_LEVELS), (label.shape[0], label.shape[1])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = list(track(pool.map(look, paths), len(paths), f"labels of {client}", progress))
    counts = np.stack([histogram for histogram, _ in seen])  # (labels, 256)
    low, high = (int(edge) for edge in np.flatnonzero(counts.any(axis=0))[[0, -1]])
    if low == high:
        raise UserError(f"{short(os.path.dirname(paths[0]))}: every label has the one value {low}: no boundary in them")
    for path, histogram in zip(paths, counts):
        _check_two(path, histogram, low, high)
    dark = counts[:, 2 * np.arange(_LEVELS) < low + high].sum(axis=1)
    shares = dark / counts.sum(axis=1)
    boundary = DARK if np.mean(shares < 0.5) >= 0.5 else LIGHT
    odd = np.flatnonzero((shares < 0.5) != (boundary == DARK))
    if len(odd):
        raise UserError(
            f"{short(paths[odd[0]])}: more {boundary} than other pixels, but in {len(paths) - len(odd)} of {client}'s "
            f"{len(paths)} labels the {boundary} ones are the thin boundaries; invert this label or remove it"
        )
    share = float(dark.sum() / counts.sum())
    return Coding(boundary, low, high, share if boundary == DARK else 1 - share), [size for _, size in seen]


def _check_two(path: str, histogram: np.ndarray, low: int, high: int) -> None:
    """A UserError unless the label has two values, but for smoothed edges."""
    values = np.flatnonzero(histogram)
    near = _NEAR * (high - low)
    between = values[(values > low + near) & (values < high - near)]
    shares = histogram / histogram.sum()
    remedy = f"keep two values only, {low} and {high} as in the client's other labels"
    if values.tolist() == [0, 1] and high > 1:
        raise UserError(f"{short(path)}: a label of the values 0 and 1; {remedy}")
    if shares[between].sum() > _MOST_BETWEEN:
        part = f"{100 * shares[between].sum():.0f} %"
        raise UserError(
            f"{short(path)}: no label: {part} of its pixels are neither near {low} nor near {high}; {remedy}"
        )
    most = int(between[shares[between].argmax()]) if len(between) else low
    if len(between) and shares[most] > _MOST_OF_ONE:
        part = f"{100 * shares[most]:.1f} %"
        raise UserError(f"{short(path)}: a third value, {most}, in {part} of the label's pixels; {remedy}")
