"""What of a patch a pathologist has marked: outlines in ASAP's XML, or masks as large as the slide.

<folder>/<slide>.xml                     ASAP: polygons in groups, in pixels of the finest level
<folder>/<slide>_mask.tif or <slide>.tif a number for each class; 0: nothing is marked
<folder>/<slide>/<class>_Mask.tif        a mask for each class (AGGC22); names may begin with the slide's
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
import tifffile

from preprocessing.errors import UserError
from preprocessing.label_settings import LabelRule

_FINE = 64  # points on a patch's side at which outlines are looked at
_LEAST = 8  # pixels of a mask across a patch
_LARGEST = 2**30  # pixels of a mask that are held at once
_MASK = "_mask"


class Marked(Protocol):
    """A slide's marks."""

    classes: tuple[str, ...]  # that occur on it

    def shares(self, x: int, y: int, side: float) -> dict[str, float]:
        """Of a patch, its corner and side in pixels of the finest level: by class, how much of it is marked."""


class Outlines:
    """Polygons, by the group that ASAP has them in."""

    def __init__(self, polygons: Mapping[str, Sequence[np.ndarray]]) -> None:
        self._polygons, self.classes = polygons, tuple(polygons)

    @classmethod
    def read(cls, file: Path) -> Outlines:
        try:
            text = file.read_bytes()
            if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                raise ValueError("it defines entities")
            found: dict[str, list[np.ndarray]] = {}
            for mark in ElementTree.fromstring(text).iter("Annotation"):
                corners = sorted(mark.iter("Coordinate"), key=lambda corner: int(float(corner.get("Order", "0"))))
                points = np.array([[float(each.attrib["X"]), float(each.attrib["Y"])] for each in corners])
                if len(points) >= 3 and np.isfinite(points).all():
                    found.setdefault(mark.get("PartOfGroup") or "None", []).append(points)
        except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
            raise UserError(f"{file}: no outlines of ASAP ({error}); export them from ASAP as XML") from None
        return cls(found)

    def shares(self, x: int, y: int, side: float) -> dict[str, float]:
        found = {}
        for name, polygons in self._polygons.items():
            raster = np.zeros((_FINE, _FINE), np.uint8)
            for points in polygons:
                low, high = points.min(axis=0), points.max(axis=0)
                if (low < (x + side, y + side)).all() and (high > (x, y)).all():
                    inside = (points - (x, y)) * (_FINE / side) - 0.5
                    cv2.fillPoly(raster, [np.rint(np.clip(inside, -(2**14), 2**14)).astype(np.int32)], 1)
            found[name] = float(raster.mean())
        return found


class Masks:
    """Pictures of one number a pixel: a class for each number above 0, or a picture for each class."""

    def __init__(self, pictures: Mapping[str, Path], width: int, side: float) -> None:
        """`width` is the slide's and `side` a patch's, in pixels of the finest level."""
        self._scale: dict[str, float] = {}
        self._pixels: dict[str, np.ndarray] = {}
        for name, file in pictures.items():
            self._pixels[name], self._scale[name] = _coarse(file, width, side)
        self._numbered = set(pictures) == {""}
        values = np.unique(self._pixels[""]) if self._numbered else []
        self.classes = tuple(str(value) for value in values if value) if self._numbered else tuple(pictures)

    def shares(self, x: int, y: int, side: float) -> dict[str, float]:
        parts = {name: self._part(name, x, y, side) for name in self._pixels}
        if not self._numbered:
            return {name: float((part > 0).mean()) if part.size else 0.0 for name, part in parts.items()}
        part = parts[""]
        return {name: float((part == int(name)).mean()) if part.size else 0.0 for name in self.classes}

    def _part(self, name: str, x: int, y: int, side: float) -> np.ndarray:
        scale = self._scale[name]
        left, top = round(x * scale), round(y * scale)
        size = max(1, round(side * scale))
        return self._pixels[name][top : top + size, left : left + size]


def of_slide(folder: Path, slide: str, width: int, side: float) -> Marked | None:
    """What is in the folder for a slide; None if nothing is."""
    if (folder / f"{slide}.xml").is_file():
        return Outlines.read(folder / f"{slide}.xml")
    for name in (f"{slide}{_MASK}", f"{slide}_Mask", slide):
        for suffix in (".tif", ".tiff"):
            if (folder / f"{name}{suffix}").is_file():
                return Masks({"": folder / f"{name}{suffix}"}, width, side)
    inside = folder / slide
    files = sorted(inside.glob("*.tif*")) if inside.is_dir() else []
    return Masks({_class_of(file, slide): file for file in files}, width, side) if files else None


def _class_of(file: Path, slide: str) -> str:
    name = file.stem.removeprefix(f"{slide}_")
    return name[: -len(_MASK)] if name.lower().endswith(_MASK) else name


def _coarse(file: Path, width: int, side: float) -> tuple[np.ndarray, float]:
    """The coarsest copy of a mask that still has some pixels across a patch, and its pixels for one of the slide."""
    try:
        with tifffile.TiffFile(file) as opened:
            pages: list[Any] = [page for first in opened.pages for page in (first, *(first.pages or []))]
            pages = [page for page in pages if page.samplesperpixel == 1 and page.dtype is not None]
            if not pages:
                raise ValueError("it has no page of one number a pixel")
            pages.sort(key=lambda page: page.imagewidth)
            fine = [page for page in pages if page.imagewidth / width * side >= _LEAST]
            page = (fine or pages[-1:])[0]
            if page.imagewidth * page.imagelength > _LARGEST:
                raise ValueError("it is too large without smaller copies of itself; convert it to a pyramid")
            pixels = page.asarray()
    except Exception as error:  # as many kinds as there are decoders
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{file}: not a mask that can be read ({reason})") from None
    if pixels.ndim != 2 or pixels.dtype.kind not in "bui":
        raise UserError(f"{file}: not a mask: its pixels are {pixels.dtype} {pixels.shape}")
    return pixels, pixels.shape[1] / width


def label_of(shares: Mapping[str, float], rule: LabelRule) -> str:
    """`tumour`, `normal`, or "" where it is neither for certain."""
    tumour = min(1.0, math.fsum(shares.get(name, 0.0) for name in rule.tumour))
    if tumour - math.fsum(shares.get(name, 0.0) for name in rule.without) >= rule.share:
        return "tumour"
    if tumour > 0:  # whether all of it is cut out again, shares do not tell
        return ""
    others = math.fsum(share for name, share in shares.items() if name not in (*rule.tumour, *rule.without))
    return "normal" if not rule.marked_only or others >= rule.share else ""


def labelled(
    rows: Iterable[tuple[str, int, int]], marked: Marked, side: float, rule: LabelRule
) -> list[tuple[str, str]]:
    """(file, class) of the patches (file, x, y) that have one."""
    found = ((file, label_of(marked.shares(x, y, side), rule)) for file, x, y in rows)
    return [(file, label) for file, label in found if label]
