"""Whole slides, read region by region at the level of the pyramid that is asked for.

TIFF files, SVS among them, are read through tifffile: tiled or in strips, with or without a pyramid, uncompressed,
Deflate, LZW or JPEG. If the package `openslide` is installed, OpenSlide reads them, and other formats besides.
"""

from __future__ import annotations

import collections
import importlib
import math
import os
import re
import struct
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
import tifffile

from preprocessing.errors import UserError

_CACHE_BYTES = 256 * 2**20  # decoded tiles kept: about two rows of a large slide's
_TILE_PIXELS = 64 * 2**20  # a page stored in larger pieces is refused
_NOMINAL = (2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0)
_MICROMETRES = 10.0  # of a pixel at magnification 1: 20× is 0.5 µm
_BY_LIBTIFF = {5: "LZW", 7: "JPEG"}  # compressions that tifffile alone cannot undo and OpenCV can


class Slide(Protocol):
    """A picture at several sizes. `read` gives uint8 (height, width, 3) RGB, white beyond the edge."""

    levels: list[tuple[int, int]]  # width and height, the finest first
    magnification: float | None

    def read(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray: ...  # in the level's pixels

    def close(self) -> None: ...


def open_slide(path: Path) -> Slide:
    """By OpenSlide if it is installed and knows the format, else as a TIFF."""
    if not os.access(path, os.R_OK):
        raise UserError(f"{path}: cannot be opened; check that it exists and its permissions")
    try:
        openslide = importlib.import_module("openslide")
    except (ImportError, OSError):  # OSError: the package without its library
        openslide = None
    if openslide is not None and openslide.OpenSlide.detect_format(str(path)):
        return OpenSlideSlide(path, openslide)
    return TiffSlide(path)


class TiffSlide:
    """A TIFF's largest RGB picture and its smaller copies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = tifffile.TiffFile(path)
            self._pages = _pyramid(self._file)
        except Exception as error:  # damaged files raise what they happen to run into
            reason = " ".join(str(error).split())
            raise UserError(f"{path}: not a slide that can be read ({reason}); give a TIFF or SVS file") from None
        if not self._pages:
            self._file.close()
            raise UserError(f"{path}: no 8-bit RGB picture in it; convert it first")
        self.levels = [(page.imagewidth, page.imagelength) for page in self._pages]
        self.magnification = _magnification(self._pages[0])
        self._tiles: collections.OrderedDict[tuple[int, int], np.ndarray] = collections.OrderedDict()
        self._bytes = 0

    def read(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
        tile_width, tile_height, across = self._geometry(level)
        whole_width, whole_height = self.levels[level]
        region = np.full((height, width, 3), 255, np.uint8)
        for row in range(y // tile_height, math.ceil(min(y + height, whole_height) / tile_height)):
            for column in range(x // tile_width, math.ceil(min(x + width, whole_width) / tile_width)):
                tile = self._tile(level, row * across + column)
                left, top = column * tile_width, row * tile_height
                right = min(left + tile.shape[1], x + width, whole_width)
                bottom = min(top + tile.shape[0], y + height, whole_height)
                from_x, from_y = max(left, x), max(top, y)
                if right > from_x and bottom > from_y:
                    part = tile[from_y - top : bottom - top, from_x - left : right - left]
                    region[from_y - y : bottom - y, from_x - x : right - x] = part
        return region

    def close(self) -> None:
        self._tiles.clear()
        self._file.close()

    def _geometry(self, level: int) -> tuple[int, int, int]:
        """Width and height of a tile, and how many there are side by side; a strip is a tile as wide as the page."""
        page = self._pages[level]
        if page.is_tiled:
            return page.tilewidth, page.tilelength, math.ceil(page.imagewidth / page.tilewidth)
        rows = min(page.rowsperstrip, page.imagelength)
        if page.compression == 1 and len(page.dataoffsets) == 1:
            rows = min(rows, 128)  # one piece without compression can be read in as many as we like
        return page.imagewidth, rows, 1

    def _tile(self, level: int, number: int) -> np.ndarray:
        key = level, number
        if key in self._tiles:
            self._tiles.move_to_end(key)
            return self._tiles[key]
        try:
            tile = self._decode(level, number)
        except UserError:
            raise
        except Exception as error:  # as many kinds as there are decoders
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(f"{self._path}: tile {number} of level {level} cannot be decoded ({reason})") from None
        self._tiles[key] = tile
        self._bytes += tile.nbytes
        while self._bytes > _CACHE_BYTES and len(self._tiles) > 1:
            self._bytes -= self._tiles.popitem(last=False)[1].nbytes
        return tile

    def _decode(self, level: int, number: int) -> np.ndarray:
        page = self._pages[level]
        width, height, _ = self._geometry(level)
        if width * height > _TILE_PIXELS:
            raise UserError(f"{self._path}: level {level} is stored in one piece; convert it to a tiled TIFF")
        if not page.is_tiled:
            height = min(height, page.imagelength - number * height)
        file = page.parent.filehandle
        if page.compression == 1 and not page.is_tiled and len(page.dataoffsets) == 1:
            file.seek(page.dataoffsets[0] + number * self._geometry(level)[1] * width * 3)
            return np.frombuffer(file.read(height * width * 3), np.uint8).reshape(height, width, 3)
        if number >= len(page.dataoffsets):
            raise ValueError("it is not in the file's list of tiles")
        count = page.databytecounts[number]
        if not count:  # the scanner saw nothing there
            return np.full((height, width, 3), 255, np.uint8)
        file.seek(page.dataoffsets[number])
        contents = file.read(count)
        if len(contents) < count:
            raise ValueError("the file ends before it does")
        if page.compression in _BY_LIBTIFF:
            alone = np.frombuffer(_tile_as_tiff(page, contents, width, height), np.uint8)
            tile = cv2.imdecode(alone, cv2.IMREAD_COLOR)
            if tile is None:
                raise ValueError(f"damaged {_BY_LIBTIFF[page.compression]}")
            return cv2.cvtColor(tile, cv2.COLOR_BGR2RGB)
        try:
            tifffile.TIFF.DECOMPRESSORS[page.compression]
        except KeyError:
            raise UserError(
                f"{self._path}: compressed in a way (TIFF's number {int(page.compression)}) that needs one more "
                "package; pip install openslide-python openslide-bin, or imagecodecs"
            ) from None
        decoded = page.decode(contents, number)[0]
        return decoded[0][:height, :width]


class OpenSlideSlide:
    """Whatever OpenSlide reads."""

    def __init__(self, path: Path, openslide: Any) -> None:
        self._path, self._error = path, openslide.OpenSlideError
        try:
            self._slide = openslide.OpenSlide(str(path))
        except self._error as error:
            raise UserError(f"{path}: not a slide that OpenSlide can read ({error})") from None
        self.levels = [(int(width), int(height)) for width, height in self._slide.level_dimensions]
        properties = self._slide.properties
        self.magnification = _nominal(
            _number(properties.get("openslide.objective-power")), _number(properties.get("openslide.mpp-x"))
        )

    def read(self, level: int, x: int, y: int, width: int, height: int) -> np.ndarray:
        factor = self._slide.level_downsamples[level]
        try:
            region = self._slide.read_region((round(x * factor), round(y * factor)), level, (width, height))
        except self._error as error:
            raise UserError(f"{self._path}: level {level} cannot be read at {x}, {y} ({error})") from None
        pixels = np.asarray(region)  # (height, width, 4)
        opaque = pixels[..., 3:].astype(np.float32) / 255
        return np.rint(255 + (pixels[..., :3].astype(np.float32) - 255) * opaque).astype(np.uint8)  # on white

    def close(self) -> None:
        self._slide.close()


def _pyramid(file: tifffile.TiffFile) -> list[Any]:
    """The largest RGB page and its smaller copies, in order; labels and photographs of the glass are neither."""
    pages: list[Any] = [page for first in file.pages for page in (first, *(first.pages or []))]  # it may hold copies
    pages = [page for page in pages if page.samplesperpixel == 3 and page.dtype == np.uint8 and page.planarconfig == 1]
    pages.sort(key=lambda page: -page.imagewidth * page.imagelength)
    levels = pages[:1]
    for page in pages[1:]:
        base, last = levels[0], levels[-1]
        across, down = base.imagewidth / page.imagewidth, base.imagelength / page.imagelength
        alike = abs(across / down - 1) < 0.02 + 2 / min(page.imagewidth, page.imagelength)  # sizes are rounded
        if alike and page.is_tiled == base.is_tiled and page.imagewidth < last.imagewidth:
            levels.append(page)
    return levels


def _magnification(page: Any) -> float | None:
    """What the scanner wrote into the description, or what the size of a pixel comes to."""
    said = re.search(r"AppMag\s*=\s*([0-9.]+)", page.description or "")
    micrometres = None
    inch_or_centimetre = {2: 25400, 3: 10000}.get(int(page.resolutionunit))
    if inch_or_centimetre and page.resolution[0] > 0:
        micrometres = inch_or_centimetre / page.resolution[0]
    return _nominal(_number(said.group(1)) if said else None, micrometres)


def _nominal(power: float | None, micrometres: float | None) -> float | None:
    """The magnification: as given, or from the micrometres of a pixel; 41.2 means 40."""
    if power:
        return power
    if not micrometres or not 0.05 <= micrometres <= 10:  # such as 353: a printer's 72 dots to the inch
        return None
    exact = _MICROMETRES / micrometres
    nearest = min(_NOMINAL, key=lambda nominal: abs(nominal - exact))
    return nearest if abs(nearest / exact - 1) < 0.15 else exact


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _tile_as_tiff(page: Any, contents: bytes, width: int, height: int) -> bytes:
    """A TIFF of this tile alone, as it is compressed: OpenCV decodes whole files only."""
    short, long, raw = 3, 4, 7
    tags = {
        256: (long, struct.pack("<I", width)),
        257: (long, struct.pack("<I", height)),
        258: (short, struct.pack("<3H", 8, 8, 8)),  # bits
        259: (short, struct.pack("<H", page.compression)),
        262: (short, struct.pack("<H", page.photometric)),
        273: (long, b""),  # where the tile begins: known last
        277: (short, struct.pack("<H", 3)),  # samples of a pixel
        278: (long, struct.pack("<I", height)),  # rows of a strip
        279: (long, struct.pack("<I", len(contents))),
        317: (short, struct.pack("<H", page.predictor)),
    }
    if page.jpegtables:
        tags[347] = (raw, bytes(page.jpegtables))
    bytes_of_one = {short: 2, long: 4, raw: 1}
    begin = 8 + 2 + 12 * len(tags) + 4  # header, number of tags, tags, no further page
    longer = b"".join(value + b"\0" * (len(value) % 2) for _, value in tags.values() if len(value) > 4)
    tags[273] = (long, struct.pack("<I", begin + len(longer)))
    entries = b""
    for tag, (kind, value) in tags.items():  # in rising order, as they must be
        entries += struct.pack("<HHI", tag, kind, len(value) // bytes_of_one[kind])
        if len(value) > 4:
            entries += struct.pack("<I", begin)
            begin += len(value) + len(value) % 2
        else:
            entries += value.ljust(4, b"\0")
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + b"\0\0\0\0" + longer + contents
