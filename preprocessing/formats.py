"""Image files of every format the project knows as arrays: PNG, JPEG, BMP, TIFF, DICOM and NIfTI.

The format is told from the first bytes, never from the name. How large an image is, is asked of its header before it is
decoded (`preprocessing.budget`). What cannot be used is `Rejected`, with the reason in one line.

One file is one image. Of a volume, a stack or a file of many frames it is the slice at the share `at`, by default the
one in the middle; see `dicom`, `tiff` and `nifti` for how their values become 8 or 16 bits.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np

from preprocessing import budget, headers, image_bytes
from preprocessing.errors import Rejected
from preprocessing.header import Header
from preprocessing.suffixes import PLAIN, SUFFIXES

MIDDLE = 0.5
NAMES = "PNG, JPEG, BMP, TIFF, DICOM or NIfTI"
_PLAIN_KINDS = (headers.PNG, headers.JPEG, headers.BMP)
_MARKED = 132  # bytes after which a DICOM file can be told


def is_image(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like an image: by the end of its name or, as hospitals' exports have none, as DICOM."""
    path = os.fspath(path)
    name = os.path.basename(path).lower()
    return name.endswith(SUFFIXES) or (name != "dicomdir" and _is_marked(path))


def is_plain(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name says that TensorFlow reads it as it is."""
    return os.fspath(path).lower().endswith(PLAIN)


def header(path: str | os.PathLike[str]) -> Header:
    """What a file says of itself; nothing is decoded. Raises `Rejected`."""
    with _opened(path) as file:
        return _header(file)


def load(source: str | os.PathLike[str] | bytes, at: float = MIDDLE) -> np.ndarray:
    """A file, or its bytes, as uint8 or uint16: (height, width), or with 3 or 4 (RGBA) channels. Raises `Rejected`."""
    with _opened(source) as file:
        found = _header(file)
        if found.kind in _PLAIN_KINDS:
            file.seek(0)
            return _plain(file.read())
        return np.ascontiguousarray(_reader(found.kind).pixels(file, at))


def check(source: str | os.PathLike[str] | bytes) -> str:
    """The kind of a file that can be read. Raises `Rejected`."""
    load(source)
    with _opened(source) as file:
        return _kind(file)


def read(path: str | os.PathLike[str]) -> np.ndarray:
    """A file as uint8 grey (height, width) or RGB (height, width, 3). Raises `Rejected`.

    As pipelines see it: 16 bits rounded to 8, transparency dropped, the middle slice of a volume.
    """
    image = load(path)
    if image.ndim == 3:
        image = image[..., :3]
    return image if image.dtype == np.uint8 else np.rint(image / 257).astype(np.uint8)


def to_png(contents: bytes, at: float = MIDDLE) -> bytes:
    """A file's bytes as those of a PNG of 8 or 16 bits. Raises `Rejected`."""
    image = load(contents, at)
    if image.ndim == 3:
        image = cv2.cvtColor(image, cv2.COLOR_RGBA2BGRA if image.shape[2] == 4 else cv2.COLOR_RGB2BGR)
    return cv2.imencode(".png", image)[1].tobytes()


to_png.version = 1  # type: ignore[attr-defined]  # of what is kept: raise when the same file becomes another PNG


def _header(file: BinaryIO) -> Header:
    kind = _kind(file)
    if kind not in _PLAIN_KINDS:
        return _reader(kind).header(file)
    size = headers.size_of(file, kind)
    if size is None or not min(size):
        raise Rejected(f"damaged {kind}: it does not say its size")
    budget.check_pixels(*size)
    return Header(kind, *size)


def _kind(file: BinaryIO) -> str:
    budget.check_bytes(file.seek(0, io.SEEK_END))
    file.seek(0)
    kind = headers.kind_of(file.read(headers.FIRST))
    if kind == headers.GZIP:
        from preprocessing import nifti

        kind = headers.NIFTI if nifti.is_packed_nifti(file) else None
    if kind is None:
        raise Rejected(f"not a {NAMES} image")
    return kind


def _reader(kind: str):
    """What reads this kind; each is imported when a file of it is met."""
    from preprocessing import dicom, nifti, tiff

    return {headers.DICOM: dicom, headers.NIFTI: nifti, headers.TIFF: tiff}[kind]


def _opened(source: str | os.PathLike[str] | bytes) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    try:
        if not Path(source).is_file():
            raise Rejected("missing" if not os.path.exists(source) else "not a file")
        return open(source, "rb")
    except OSError as error:
        raise Rejected(f"cannot be opened: {error.strerror}") from None


def _plain(contents: bytes) -> np.ndarray:
    image = image_bytes.decode(contents, cv2.IMREAD_UNCHANGED)
    if image.ndim == 3:
        return cv2.cvtColor(image, cv2.COLOR_BGRA2RGBA if image.shape[2] == 4 else cv2.COLOR_BGR2RGB)
    return image


def _is_marked(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return headers.kind_of(file.read(_MARKED)) == headers.DICOM
    except OSError:
        return False
