"""How what clients keep from round to round stays at their sites: the words that both ends use for it.

A coordinator sends a client's state once, when it begins (`Order.first`), and has the site hold what becomes of it: in
the answer there is then a handle of 32 bytes in place of every array of it. In an argument it writes, in place of
an array, which array of which state it means (`Leaf`): the site puts it in before its worker sees it. The order is
the last element of an argument's struct, and goes no further than the site's own process.

    FORGET  handles whose states are not needed any more
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NamedTuple

FORGET = "/tffapps.Site/Forget"
ORDER = "state"  # the name of the element that is an order
HANDLE = 32  # bytes
_HANDLE = re.compile("[0-9a-f]{64}")
_LEAF = re.compile(r"([0-9a-f]{64})\.(\d{1,6})")
_LONGEST = 500
_MOST_FORGOTTEN = 10_000
_MOST_ARRAYS = 10**6


class Leaf(NamedTuple):
    """One array of a state that a site holds."""

    handle: str
    place: int

    def __str__(self) -> str:
        return f"{self.handle}.{self.place}"

    @classmethod
    def parse(cls, text: str) -> Leaf:
        """ValueError if it is none."""
        found = _LEAF.fullmatch(text)
        if found is None:
            raise ValueError("no array of a state that a site holds")
        return cls(found[1], int(found[2]))


class Order(NamedTuple):
    """What is to be held of an answer, and what it begins with; both as places of arrays, in order."""

    hold: range
    first: range | None = None  # of the argument: a state's first; None: the state is put in

    def to_bytes(self) -> bytes:
        first = None if self.first is None else [self.first.start, self.first.stop]
        return json.dumps({"hold": [self.hold.start, self.hold.stop], "first": first}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Order:
        """ValueError if it is none."""
        try:
            fields = json.loads(content) if len(content) <= _LONGEST else None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or set(fields) != set(cls._fields):
            raise ValueError("what is to be held cannot be read")
        first = fields["first"]
        return cls(_range(fields["hold"]), None if first is None else _range(first))


def _range(places: object) -> range:
    if not isinstance(places, list) or len(places) != 2 or not all(type(place) is int for place in places):
        raise ValueError("what is to be held cannot be read")
    start, stop = places
    if not 0 <= start < stop <= _MOST_ARRAYS:
        raise ValueError("what is to be held cannot be read")
    return range(start, stop)


def to_forget(handles: Iterable[str]) -> bytes:
    return "\n".join(handles).encode()


def forgotten(content: bytes) -> list[str]:
    """ValueError if these are no handles."""
    handles = content.decode(errors="replace").split("\n")
    if len(handles) > _MOST_FORGOTTEN or not all(map(_HANDLE.fullmatch, handles)):
        raise ValueError("what is to be forgotten cannot be read")
    return handles
