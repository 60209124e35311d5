"""TIFF and OME-TIFF files as grey, RGB or RGBA arrays.

The first picture of a file is read. Of a stack (OME-TIFF, ImageJ) it is the first time and the middle slice, unless
another is asked for; two or three channels become red, green and blue in their order, a missing one black, and more are
refused: nobody but its owner knows which to leave out. Values of 8 and 16 bits stay as they are, spread to all 16 where
OME says that fewer are significant; all other kinds of numbers are spread from the image's lowest to its highest.

Other files that an OME-TIFF names are not opened.
"""

from __future__ import annotations

import io
import logging
import zlib
from typing import Any, BinaryIO

import cv2
import numpy as np
import tifffile

from preprocessing import budget, headers, tiff_stack
from preprocessing.errors import Rejected
from preprocessing.header import Header, stretched, to_levels

_DAMAGED = "TIFF: damaged, or of a kind that cannot be read"
_PLAIN, _DEFLATE = (1, 32773), (8, 32946)  # compressions that tifffile undoes; OpenCV, which has libtiff, knows others
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _YCBCR = 0, 1, 2, 3, 6
_MOST = 4  # samples of a pixel


def header(file: BinaryIO) -> Header:
    """What a file says of itself. Raises `Rejected`."""
    with _opened(file) as tiff:
        stack = tiff_stack.of(tiff)
        page = _page(tiff, stack.page(0, 0))
        return Header(headers.TIFF, page.imagewidth, page.imagelength, stack.slices)


def pixels(file: BinaryIO, at: float) -> np.ndarray:
    """uint8 or uint16 (height, width), (height, width, 3) or (height, width, 4)."""
    with _opened(file) as tiff:
        stack = tiff_stack.of(tiff)
        number = min(int(at * stack.slices), stack.slices - 1)
        places = [stack.page(channel, number) for channel in range(stack.channels)]
        planes = [_plane(file, tiff, place) for place in places]
        if len(planes) == 1:
            return _levels(planes[0], stack.bits)
        if len({plane.shape for plane in planes}) > 1 or planes[0].ndim != 2:
            raise Rejected("TIFF: channels of different sizes, or of colours; save it as one RGB picture")
        levels = [_levels(plane, stack.bits) for plane in planes]
        return np.stack([*levels, *[np.zeros_like(levels[0])] * (3 - len(levels))], axis=-1)


class _opened:
    """A file's pages; what goes wrong with a damaged one is `Rejected`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __enter__(self) -> tifffile.TiffFile:
        logging.getLogger("tifffile").setLevel(logging.CRITICAL + 1)
        self._file.seek(0)
        try:
            # Given bytes and not a name, it cannot look for other files.
            return tifffile.TiffFile(io.BytesIO(self._file.read()))
        except Exception:
            raise Rejected(_DAMAGED) from None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, Rejected):
            raise Rejected(_DAMAGED) from None


def _page(tiff: tifffile.TiffFile, place: int) -> Any:
    """A page that is worth reading."""
    page: Any = tiff.pages[place]
    if not isinstance(page, tifffile.TiffPage):
        page = page.aspage()
    width, height, samples = page.imagewidth, page.imagelength, page.samplesperpixel
    if width < 1 or height < 1 or page.imagedepth != 1 or page.tiledepth > 1 or page.dtype is None:
        raise Rejected("TIFF: no flat picture in it")
    budget.check_pixels(width, height)
    if page.is_tiled:
        budget.check_pixels(page.tilewidth, page.tilelength)
    if samples > _MOST or page.photometric not in (_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE, _YCBCR):
        raise Rejected(f"TIFF: {samples} values a pixel, or other colours than grey, RGB and palettes; save it as RGB")
    budget.check_bytes(width * height * samples * page.dtype.itemsize, "bytes of pixels")
    return page


def _plane(file: BinaryIO, tiff: tifffile.TiffFile, place: int) -> np.ndarray:
    """A page's values, (height, width) or (height, width, 3 or 4)."""
    page = _page(tiff, place)
    if page.compression not in (*_PLAIN, *_DEFLATE) or page.photometric == _YCBCR:
        return _by_libtiff(file, page, place)
    if page.compression in _DEFLATE:
        _check_deflated(page)
    values = page.asarray(maxworkers=1)
    if page.planarconfig == 2 and values.ndim == 3:  # one colour after the other
        values = np.moveaxis(values, 0, -1)
    if page.photometric == _PALETTE and page.colormap is not None:
        return (np.asarray(page.colormap)[:, values] >> 8).astype(np.uint8).transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[2] <= 2:  # grey, and how transparent it is
        values = values[..., 0]
    return _inverted(values, page)


def _by_libtiff(file: BinaryIO, page: Any, place: int) -> np.ndarray:
    file.seek(0)
    contents = np.frombuffer(file.read(), np.uint8)
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # it tells of damage in lines of its own
    try:
        done, found = cv2.imdecodemulti(contents, cv2.IMREAD_UNCHANGED, range=(place, place + 1))
    except cv2.error:
        done, found = False, ()
    if not done or len(found) != 1 or found[0].shape[:2] != (page.imagelength, page.imagewidth):
        name = getattr(page.compression, "name", page.compression)
        raise Rejected(f"TIFF: damaged, or compressed in a way that cannot be read ({name}); save it uncompressed")
    values = found[0]
    if values.ndim == 3:
        return cv2.cvtColor(values, cv2.COLOR_BGRA2RGBA if values.shape[2] == 4 else cv2.COLOR_BGR2RGB)
    return values if values.dtype == np.uint8 else _inverted(values, page)  # of 8 bits libtiff has done it


def _inverted(values: np.ndarray, page: Any) -> np.ndarray:
    """Light is high, also where the file has it the other way round."""
    if page.photometric != _WHITE_IS_ZERO:
        return values
    if values.dtype.kind == "b":
        return ~values
    return np.iinfo(values.dtype).max - values if values.dtype.kind == "u" else -values.astype(np.float64)


def _check_deflated(page: Any) -> None:
    """No piece may hold more than its place in the picture: nothing else bounds what is unpacked."""
    most = int(np.prod(page.chunks)) * page.dtype.itemsize
    for offset, count in zip(page.dataoffsets, page.databytecounts):
        page.parent.filehandle.seek(offset)
        budget.check_bytes(count)
        unpacked = zlib.decompressobj().decompress(page.parent.filehandle.read(count), most + 1)
        if len(unpacked) > most:
            raise Rejected("TIFF: a piece of it unpacks to more than it has room for")


def _levels(values: np.ndarray, bits: int) -> np.ndarray:
    if values.dtype.kind == "b":
        return values.astype(np.uint8) * 255
    if values.dtype == np.uint8:
        return np.ascontiguousarray(values)
    if values.dtype != np.uint16:
        return to_levels(stretched(values))
    if 8 <= bits < 16 and values.max(initial=0) < 2**bits:
        return to_levels(values / (2**bits - 1))
    return np.ascontiguousarray(values)
