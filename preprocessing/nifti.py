"""NIfTI volumes (.nii, .nii.gz) as one grey or RGB slice.

The slice is axial, the middle one unless another is asked for, of the first volume if there are several. It is shown as
radiologists look at it: front at the top, the patient's right on the left. Values are scaled as the header says, then
shown in its window (cal_min to cal_max) if it has one; without one, 8-bit values stay as they are stored and others are
spread between the slice's quantiles 0.005 and 0.995. A packed file is unpacked as far as the slice and no further.
"""

from __future__ import annotations

import gzip
import logging
import math
import zlib
from typing import Any, BinaryIO

import numpy as np

from preprocessing import budget, headers
from preprocessing.errors import Rejected
from preprocessing.header import Header, stretched, to_levels

_OUTSIDE = 0.005
_SMALLEST = 348  # bytes of a header
_DAMAGED = "NIfTI: damaged, or of a kind that cannot be read"


def opened(file: BinaryIO) -> BinaryIO:
    """The file, unpacked while it is read."""
    file.seek(0)
    packed = headers.kind_of(file.read(2)) == headers.GZIP
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[return-value]


def is_packed_nifti(file: BinaryIO) -> bool:
    """Whether a gzip file holds one; a few bytes of it are unpacked."""
    try:
        return headers.kind_of(opened(file).read(headers.FIRST)) == headers.NIFTI
    except (OSError, EOFError, zlib.error):
        return False


def header(file: BinaryIO) -> Header:
    """What a file says of itself. Raises `Rejected`."""
    try:
        image = _image(file)
        shape, axis = _shape(image), _axial(image)
        across, down = (each for each in np.argsort(_orientation(image)[:, 0]) if each != axis)
    except Rejected:
        raise
    except Exception:  # nibabel stumbles over damage in as many ways as there are
        raise Rejected(_DAMAGED) from None
    width, height = shape[across], shape[down]
    budget.check_pixels(width, height)
    budget.check_bytes(math.prod(map(int, image.shape)) * image.get_data_dtype().itemsize, "bytes when unpacked")
    return Header(headers.NIFTI, width, height, shape[axis])


def pixels(file: BinaryIO, at: float) -> np.ndarray:
    """The slice at this share of the volume, uint8 or uint16 (height, width) or (height, width, 3)."""
    found = header(file)
    try:
        return _slice(_image(file), min(int(at * found.slices), found.slices - 1))
    except Rejected:
        raise
    except Exception:  # truncated, or packed data that is damaged
        raise Rejected(_DAMAGED) from None


def _image(file: BinaryIO) -> Any:
    """The header is read; values are when they are asked for."""
    try:
        import nibabel
    except ImportError:
        raise Rejected("a NIfTI file: install nibabel to read it") from None
    logging.getLogger("nibabel.global").setLevel(logging.CRITICAL + 1)  # it tells of every header that it mends
    stream: Any = opened(file)
    start = stream.read(_SMALLEST)
    stream.seek(0)
    kind = nibabel.Nifti2Image if start[4:8] == b"n+2\0" else nibabel.Nifti1Image
    return kind.from_stream(stream)


def _shape(image: Any) -> tuple[int, ...]:
    shape = tuple(int(side) for side in image.shape)
    if not 2 <= len(shape) <= 7 or min(shape) < 1:
        raise Rejected("NIfTI: neither a slice nor a volume")
    return shape if len(shape) > 2 else (*shape, 1)


def _orientation(image: Any) -> np.ndarray:
    """For each axis of the volume: which of left-right, back-front, feet-head it is, and whether it points that way."""
    import nibabel

    if np.isfinite(image.affine).all():
        found = nibabel.io_orientation(image.affine)
        if np.isfinite(found).all():
            return found
    return np.array([[0, 1], [1, 1], [2, 1]])


def _axial(image: Any) -> int:
    """The axis from feet to head; of a single slice the one with nothing in it."""
    if _shape(image)[2] == 1:
        return 2
    return int(np.flatnonzero(_orientation(image)[:, 0] == 2)[0])


def _slice(image: Any, number: int) -> np.ndarray:
    axis, orientation = _axial(image), _orientation(image)
    if len(image.shape) == 2:
        values = np.asarray(image.dataobj)
    else:
        place = [slice(None)] * 3 + [0] * (len(image.shape) - 3)
        place[axis] = number
        values = np.asarray(image.dataobj[tuple(place)])
    left = [orientation[each] for each in range(3) if each != axis]
    for each, (_, direction) in enumerate(left):
        if direction > 0:  # towards the right or the front: the picture begins there
            values = np.flip(values, each)
    if left[0][0] < left[1][0]:
        values = np.swapaxes(values, 0, 1)
    return _levels(values, image)


def _levels(values: np.ndarray, image: Any) -> np.ndarray:
    if values.dtype.names:
        values = np.stack([values[name] for name in values.dtype.names[:3]], axis=-1)
        return np.ascontiguousarray(values, np.uint8)
    if values.dtype.kind not in "biuf":
        raise Rejected("NIfTI: complex values; save their magnitude")
    low, high = float(image.header["cal_min"]), float(image.header["cal_max"])
    if math.isfinite(low) and math.isfinite(high) and high > low:
        return to_levels(np.nan_to_num((values - low) / (high - low)))
    if values.dtype == np.uint8:  # not scaled by the header: then it would be of another type
        return np.ascontiguousarray(values)
    return to_levels(stretched(values, share=_OUTSIDE))
