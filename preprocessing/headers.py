"""The kind and the size of an image file, from its first bytes; nothing is decoded.

What decoders would make of a file counts here, not what it ought to be: of two sizes in a TIFF the larger one.
"""

from __future__ import annotations

import io
import struct
from typing import BinaryIO

PNG, JPEG, BMP, TIFF, DICOM, NIFTI, GZIP, JPEG2000 = "PNG", "JPEG", "BMP", "TIFF", "DICOM", "NIfTI", "gzip", "JPEG 2000"
FIRST = 352  # bytes that tell the kind
_TIFF_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_STREAM = b"\xff\x4f\xff\x51"  # how a JPEG 2000 codestream begins; it may lie in a file of boxes
_JPEG2000_STARTS = (_STREAM, b"\0\0\0\x0cjP  ")
_NO_LENGTH = {0x01, *range(0xD0, 0xD9)}  # JPEG's markers without a segment: TEM, RST0 to RST7, SOI
_FRAMES = {*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC}  # JPEG's start-of-frame markers, that of JPEG-LS among them
_END, _SCAN = 0xD9, 0xDA
_MOST_TAGS = 4096

Size = tuple[int, int]  # width, height


def kind_of(start: bytes) -> str | None:
    """The kind of a file that begins like this (`FIRST` bytes of it); None: none that is known here."""
    for kind, magic in ((PNG, b"\x89PNG"), (JPEG, b"\xff\xd8\xff"), (BMP, b"BM"), (GZIP, b"\x1f\x8b")):
        if start.startswith(magic):
            return kind
    if start[128:132] == b"DICM":  # a preamble may be anything, a TIFF's start too
        return DICOM
    if start.startswith(_TIFF_STARTS):
        return TIFF
    if start[344:348] == b"n+1\0" or start[4:8] == b"n+2\0":
        return NIFTI
    return None


def size_of(contents: bytes | BinaryIO, kind: str | None = None) -> Size | None:
    """Width and height of a PNG, JPEG, BMP, TIFF or JPEG 2000 stream; None where it does not say."""
    file = io.BytesIO(contents) if isinstance(contents, bytes) else contents
    file.seek(0)
    start = file.read(FIRST)
    kind = kind or kind_of(start) or (JPEG2000 if start.startswith(_JPEG2000_STARTS) else None)
    try:
        if kind == PNG:
            return struct.unpack_from(">II", start, 16) if start[12:16] == b"IHDR" else None
        if kind == BMP:
            return _bmp(start)
        return {JPEG: _jpeg, TIFF: _tiff, JPEG2000: _jpeg2000}[kind](file) if kind else None
    except (struct.error, KeyError, ValueError, OverflowError, OSError):
        return None


def _bmp(start: bytes) -> Size:
    if struct.unpack_from("<I", start, 14)[0] == 12:  # OS/2's, with short numbers
        return struct.unpack_from("<HH", start, 18)
    width, height = struct.unpack_from("<ii", start, 18)
    return abs(width), abs(height)  # a negative height: rows from the top


def _jpeg(file: BinaryIO) -> Size | None:
    """Of the first frame. As decoders do, whatever lies between segments is passed over."""
    file.seek(2)
    while True:
        byte = file.read(1)
        if not byte:
            return None
        if byte != b"\xff":
            continue
        while byte == b"\xff":
            byte = file.read(1)
        marker = byte[0] if byte else _END
        if marker == 0 or marker in _NO_LENGTH:
            continue
        if marker in (_END, _SCAN):
            return None
        (length,) = struct.unpack(">H", file.read(2))
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", file.read(5), 1)
            return width, height
        file.seek(max(0, length - 2), io.SEEK_CUR)


def _jpeg2000(file: BinaryIO) -> Size | None:
    file.seek(0)
    place = 0
    while (start := file.read(24)) and not start.startswith(_STREAM):
        length, name = struct.unpack_from(">I4s", start)
        head = 16 if length == 1 else 8
        if name == b"jp2c":
            place += head
        elif length < 8 and length != 1:  # to the end of the file, or damaged
            return None
        else:
            place += struct.unpack_from(">Q", start, 8)[0] if length == 1 else length
        file.seek(place)
    right, bottom, left, top = struct.unpack_from(">IIII", start, 8)
    return right - left, bottom - top


def _tiff(file: BinaryIO) -> Size | None:
    """Of the first page."""
    file.seek(0)
    start = file.read(16)
    order = "<" if start.startswith(b"II") else ">"
    big = start[2:4] in (b"+\0", b"\0+")
    (place,) = struct.unpack_from(f"{order}{'Q' if big else 'I'}", start, 8 if big else 4)
    file.seek(place)
    (count,) = struct.unpack(f"{order}{'Q' if big else 'H'}", file.read(8 if big else 2))
    entry = 20 if big else 12
    tags = file.read(entry * min(count, _MOST_TAGS))
    sides = {256: 0, 257: 0}  # width and height
    for first in range(0, len(tags) - entry + 1, entry):
        tag, kind = struct.unpack_from(f"{order}HH", tags, first)
        if tag in sides:
            value = {1: "B", 3: "H", 4: "I", 16: "Q"}.get(kind, "I")
            found = struct.unpack_from(order + value, tags, first + (12 if big else 8))[0]
            sides[tag] = max(sides[tag], found)
    return (sides[256], sides[257]) if all(sides.values()) else None
