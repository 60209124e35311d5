"""Which page of a TIFF shows which channel and slice: by OME's XML or ImageJ's description; else there is one page."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import tifffile

from preprocessing.errors import Rejected

_MOST_PLANES = 2**20
_MOST_TEXT = 2**24  # bytes of XML
_CHANNELS = 3


@dataclasses.dataclass(frozen=True)
class Stack:
    """The first time of a stack; a plain file is one of one channel and slice."""

    channels: int = 1
    slices: int = 1
    bits: int = 0  # that are significant; 0: it is not said
    order: str = "CZT"  # of the pages, the fastest first
    sizes: Mapping[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys("CZT", 1))
    pages: Mapping[int, int] | None = None  # by a plane's number in that order; None: the same

    def page(self, channel: int, slice_: int) -> int:
        """The number of the page with a channel of a slice."""
        place, step = 0, 1
        for axis in self.order:
            place += step * {"C": channel, "Z": slice_, "T": 0}[axis]
            step *= self.sizes[axis]
        if self.pages is None:
            return place
        if place not in self.pages:
            raise Rejected("OME-TIFF: planes in other files, or none; save it as one file")
        return self.pages[place]


def of(tiff: tifffile.TiffFile) -> Stack:
    """What a file says of itself."""
    text = tiff.pages.first.description or ""
    if text.lstrip()[:1] == "<" and text.rstrip().endswith("OME>"):
        stack = _ome(text)
    elif text.startswith("ImageJ="):
        stack = _imagej(text)
    else:
        return Stack()
    if stack.channels > _CHANNELS:
        raise Rejected(f"TIFF: {stack.channels} channels; save the one, two or three that are to be looked at")
    return stack


def _ome(text: str) -> Stack:
    if len(text) > _MOST_TEXT or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise Rejected("OME-TIFF: a description that is no plain XML")
    root = ElementTree.fromstring(text)
    pixels = next((each for each in root.iter() if _name(each) == "Pixels"), None)
    if pixels is None:
        raise Rejected("OME-TIFF: its description names no picture; save it again")
    sizes = {axis: int(pixels.get(f"Size{axis}", 1)) for axis in "CZT"}
    channel = next((each for each in pixels if _name(each) == "Channel"), None)
    samples = int(channel.get("SamplesPerPixel", 1)) if channel is not None else 1
    if samples > 1:  # a page has all of them
        sizes["C"] = max(1, sizes["C"] // samples)
    _check(sizes)
    order = pixels.get("DimensionOrder", "XYCZT")[2:]
    if sorted(order) != ["C", "T", "Z"]:
        raise Rejected("OME-TIFF: an order of dimensions that cannot be")
    bits = int(pixels.get("SignificantBits", 0))
    return Stack(sizes["C"], sizes["Z"], bits, order, sizes, _pages(root, pixels, order, sizes))


def _pages(root: Any, pixels: Any, order: str, sizes: Mapping[str, int]) -> dict[int, int] | None:
    """Where each plane is, by the elements TiffData; None where there are none: one after the other."""
    total = sizes["C"] * sizes["Z"] * sizes["T"]
    found: dict[int, int] = {}
    named = [each for each in pixels if _name(each) == "TiffData"]
    for data in named:
        where = next((each.text for each in data if _name(each) == "UUID"), None)
        if where and root.get("UUID") and where.strip() != root.get("UUID").strip():
            continue  # in another file
        first, step = 0, 1
        for axis in order:
            first += step * int(data.get(f"First{axis}", 0))
            step *= sizes[axis]
        page = int(data.get("IFD", 0))
        count = int(data.get("PlaneCount", 1 if data.get("IFD") else total))
        for number in range(max(0, min(count, total - first))):
            found[first + number] = page + number
        if len(found) > _MOST_PLANES:
            break
    return found if named else None


def _imagej(text: str) -> Stack:
    """Pages are ordered by time, then slice, then channel."""
    said = {name: int(value) for name, value in re.findall(r"^(channels|slices|frames)=(\d{1,9})\s*$", text, re.M)}
    sizes = {"C": said.get("channels", 1), "Z": said.get("slices", 1), "T": said.get("frames", 1)}
    _check(sizes)
    return Stack(sizes["C"], sizes["Z"], 0, "CZT", sizes)


def _check(sizes: Mapping[str, int]) -> None:
    if min(sizes.values()) < 1 or sizes["C"] * sizes["Z"] * sizes["T"] > _MOST_PLANES:
        raise Rejected("TIFF: a number of slices, channels or times that cannot be")


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
