"""Image files' bytes to pixels. OpenCV takes any size and fills up damaged files without a word; here they are told."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np

from preprocessing import budget, headers
from preprocessing.errors import Rejected

_KINDS = (headers.PNG, headers.JPEG, headers.BMP, headers.TIFF)


def decode(contents: bytes, flag: int) -> np.ndarray:
    """The image as `cv2.imdecode` gives it with this flag (`cv2.IMREAD_…`). Raises `Rejected`."""
    if not contents:
        raise Rejected("empty file: 0 bytes")
    kind = headers.kind_of(contents[: headers.FIRST])
    if kind not in _KINDS:
        raise Rejected(f"not an image: OpenCV cannot decode its {len(contents)} bytes")
    budget.check_bytes(len(contents))
    size = headers.size_of(contents, kind)
    if size:
        budget.check_pixels(*size)
    if contents.startswith(b"\x89PNG\r\n\x1a\n"):
        _check_png(contents)
    elif contents.startswith(b"\xff\xd8\xff") and b"\xff\xd9" not in contents[-1024:]:
        raise Rejected(f"truncated JPEG: no end-of-image mark in {len(contents)} bytes")
    try:
        image = cv2.imdecode(np.frombuffer(contents, np.uint8), flag)
    except cv2.error as error:  # such as one larger than OpenCV's limit
        raise Rejected(f"not readable: OpenCV says {' '.join(error.err.split())}") from None
    if image is None:
        raise Rejected(f"not an image: OpenCV cannot decode its {len(contents)} bytes")
    return image


def _check_png(contents: bytes) -> None:
    """Walks a PNG's chunks: each is its length, its name, its data and their checksum."""
    at = 8
    while at + 12 <= len(contents):
        (length,) = struct.unpack_from(">I", contents, at)
        end = at + 12 + length
        if end > len(contents):
            break
        name = contents[at + 4 : at + 8]
        if zlib.crc32(contents[at + 4 : end - 4]) != struct.unpack_from(">I", contents, end - 4)[0]:
            raise Rejected(f"damaged PNG: wrong checksum in its part {name!r} at byte {at}")
        if name == b"IEND":
            return
        at = end
    raise Rejected(f"truncated PNG: it ends after {len(contents)} bytes without an end mark")
