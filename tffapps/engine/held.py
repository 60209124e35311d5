"""What a client keeps, where it stays at the client's site: the coordinator has a word for each of its arrays.

In Python such a word is an array of one text, so that it is stored, read and handed on like what it stands for; inside
an engine it is `Held`. `wire.states` has the words that sites understand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tffapps.errors import UserError
from tffapps.wire.states import HANDLE, Leaf

KEPT = "kept"  # what an argument and a part of a result are called that clients keep
_PREFIX = "at a site: "
_HANDLE_TYPE = tff.TensorType(np.uint8, [HANDLE])


@dataclasses.dataclass(frozen=True)
class Held:
    """One array of what a client keeps at its site."""

    site: str
    leaf: Leaf

    def to_array(self) -> np.ndarray:
        return np.array(f"{_PREFIX}{self.leaf} {self.site}")

    @classmethod
    def of(cls, value: Any) -> Held | None:
        """What such an array stands for; None if it is an array of numbers."""
        if not isinstance(value, np.ndarray) or value.dtype.kind != "U" or value.shape:
            return None
        text = str(value)
        leaf, _, site = text.removeprefix(_PREFIX).partition(" ")
        return cls(site, Leaf.parse(leaf)) if text.startswith(_PREFIX) else None

    def at(self, site: str) -> str:
        """The word for the site that has it; UserError for another."""
        if site != self.site:
            raise UserError(f"what a client keeps at site {self.site} cannot be used at site {site}: it does not leave")
        return str(self.leaf)


def by_site(kept: Iterable[Sequence[Any]]) -> dict[str, set[str]]:
    """The handles of all that clients keep at sites, by the sites' names."""
    found: dict[str, set[str]] = {}
    for arrays in kept:
        for held in filter(None, map(Held.of, arrays)):
            found.setdefault(held.site, set()).add(held.leaf.handle)
    return found


def leaves(value: Any) -> Iterator[Any]:
    """Of an engine's value."""
    if isinstance(value, tff.structure.Struct):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def any_held(value: Any) -> bool:
    return any(isinstance(leaf, Held) for leaf in leaves(value))


def with_handles(kind: tff.Type, places: range) -> tff.Type:
    """The type of an answer in which there are handles in the place of these of its arrays."""
    return _typed(kind, iter(range(len(tff.structure.flatten(kind)))), places)


def _typed(kind: tff.Type, numbers: Iterator[int], places: range) -> tff.Type:
    if isinstance(kind, tff.StructType):
        return tff.StructType([(name, _typed(one, numbers, places)) for name, one in tff.structure.iter_elements(kind)])
    return _HANDLE_TYPE if next(numbers) in places else kind


def read_handles(value: Any, places: range, site: str) -> Any:
    """An answer whose handles have become `Held`."""
    numbers = iter(range(10**9))

    def read(part: Any) -> Any:
        if isinstance(part, tff.structure.Struct):
            return tff.structure.Struct([(name, read(one)) for name, one in tff.structure.iter_elements(part)])
        number = next(numbers)
        if number not in places:
            return part
        return Held(site, Leaf(part.numpy().tobytes().hex(), number - places.start))

    return read(value)
