"""What an answer may be, told from what was sent for it: arrays of the sizes of a model, and little beside.

The result of a call consists of

    an update       an array of the shape of one that was sent with the call, each once, or packed as `compressed` does,
                    or, where several rows were sent of everything, one row of each: FPL's prototypes of its clusters
    a report        a few numbers: a weight, sums of losses, a confusion matrix
    predictions     rows, no more than the site has images, as wide as the last dimension of an array that was sent

or the call is refused. So an answer has no more numbers than what was sent for it, but for predictions. That an update
is one, and not pixels in its place, no rule of this kind can tell.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Container, Iterator, Sequence
from typing import Any

from tffapps.engine.tff_messages import data_type_pb2

_INT32 = data_type_pb2.DataType.Value("DT_INT32")
_SIZES = {
    "BOOL": 1, "INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "HALF": 2, "BFLOAT16": 2, "INT32": 4, "UINT32": 4,
    "FLOAT": 4, "INT64": 8, "UINT64": 8, "DOUBLE": 8, "COMPLEX64": 8, "COMPLEX128": 16,
}  # fmt: skip
_BYTES = {data_type_pb2.DataType.Value(f"DT_{name}"): size for name, size in _SIZES.items()}
_UNKNOWN = -1


class NotAllowed(ValueError):
    """A result that is none of these."""


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One array of a value or of a type."""

    dtype: int
    shape: tuple[int, ...]  # _UNKNOWN: any

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        name = data_type_pb2.DataType.Name(self.dtype).removeprefix("DT_").lower() if self.dtype in _BYTES else "text"
        return f"{name}[{','.join('?' if size < 0 else str(size) for size in self.shape)}]"


@dataclasses.dataclass(frozen=True)
class Allowed:
    """Which of a result's arrays are what."""

    rows: frozenset[int]  # places of predictions
    update: bool  # whether there is an array of the model's shapes, or a report
    most_rows: int


def of_type(kind: Any) -> list[Leaf]:
    """Of TFF's message `Type`: the arrays of a value of it, in order."""
    which = kind.WhichOneof("type")
    if which == "struct":
        return [leaf for element in kind.struct.element for leaf in of_type(element.value)]
    if which != "tensor" or kind.tensor.unknown_rank:
        raise NotAllowed(f"a result with a {which} in it" if which != "tensor" else "a result of unknown dimensions")
    return [Leaf(kind.tensor.dtype, tuple(max(size, _UNKNOWN) for size in kind.tensor.dims))]


def arrays_of(value: Any) -> Iterator[Any]:
    """Of TFF's message `Value`, which holds nothing but arrays in structs."""
    kind = value.WhichOneof("value")
    if kind == "struct":
        for element in value.struct.element:
            yield from arrays_of(element.value)
    elif kind == "array":
        yield value.array
    else:
        raise NotAllowed(f"an answer with a {kind} in it")


def leaf_of(array: Any) -> Leaf:
    return Leaf(array.dtype, tuple(array.shape.dim))


def most_reported(classes: int, sent: int) -> int:
    """How many numbers all reports of an answer may have; an array that is packed comes with its range."""
    return 64 + max(8, classes) ** 2 + 2 * sent


def _packed(leaf: Leaf, left: collections.Counter[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape of the array, of those left, that this is packed as the aggregator `compressed` does it, if it is."""
    if leaf.dtype != _INT32 or len(leaf.shape) != 2 or leaf.shape[1] != 1:
        return None
    fits = (shape for shape, count in left.items() if count and leaf.shape[0] == -(-8 * math.prod(shape) // 28))
    return next(fits, None)


def _one_of_several(leaf: Leaf, left: collections.Counter[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape of the array, of those left, that has several rows of each where this has one, if there is one."""
    fits = (shape for shape, count in left.items() if count and len(shape) > 2 and (shape[0], *shape[2:]) == leaf.shape)
    return next(fits, None)


def allowed(
    result: Sequence[Leaf],
    sent: Sequence[Leaf],
    images: int,
    classes: int,
    *,
    held: Container[int] = (),
    kept: Sequence[Leaf] = (),
) -> Allowed:
    """NotAllowed, with one line, if a call that was sent these arrays may not have this result.

    `held` are places of the result that do not leave, `kept` arrays that the site itself has put in: predictions may be
    as wide as these, and that is all they allow.
    """
    left = collections.Counter(leaf.shape for leaf in sent if leaf.dtype in _BYTES)
    widths = {leaf.shape[-1] for leaf in (*sent, *kept) if leaf.shape}
    reported, rows, update = 0, set(), False
    for place, leaf in enumerate(result):
        if leaf.dtype not in _BYTES:
            raise NotAllowed(f"a result with {leaf} in it: texts do not leave")
        if place in held:
            continue
        if _UNKNOWN in leaf.shape:
            width = leaf.shape[1:] or (1,)
            if leaf.shape[0] != _UNKNOWN or len(width) > 1 or (len(leaf.shape) == 2 and width[0] not in widths):
                raise NotAllowed(f"a result with {leaf} in it, which is no prediction of the model that was sent")
            rows.add(place)
        elif shape := leaf.shape if left[leaf.shape] else _packed(leaf, left) or _one_of_several(leaf, left):
            left[shape] -= 1
            update = True
        elif len(leaf.shape) <= 1 and reported + leaf.numbers <= most_reported(classes, len(sent)):
            reported += leaf.numbers
            update = True
        else:
            raise NotAllowed(f"a result with {leaf} in it, and no array of this shape was sent")
    return Allowed(frozenset(rows), update, images)


def check_answer(value: Any, result: Sequence[Leaf], rule: Allowed) -> None:
    """Compares what a worker answered with the result that was allowed."""
    found = list(arrays_of(value))
    if len(found) != len(result):
        raise NotAllowed(f"an answer of {len(found)} arrays, {len(result)} were to come")
    for place, (array, wanted) in enumerate(zip(found, result)):
        leaf = leaf_of(array)
        fits = len(leaf.shape) == len(wanted.shape) and all(
            size >= 0 and expected in (_UNKNOWN, size) for size, expected in zip(leaf.shape, wanted.shape)
        )
        if leaf.dtype != wanted.dtype or not fits or array.ByteSize() > 2 * _BYTES[leaf.dtype] * leaf.numbers + 1024:
            raise NotAllowed(f"an answer with {leaf} in it where {wanted} was to come")
        if place in rule.rows and leaf.shape[0] > rule.most_rows:
            raise NotAllowed(f"an answer with {leaf.shape[0]} predictions, of {rule.most_rows} images at most")
