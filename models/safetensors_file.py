"""A .safetensors file: the length of a header, the header (JSON), and the numbers it describes, in a row.

8 bytes  little-endian length n of the header
n bytes  {"layer1.0.conv1.weight": {"dtype": "F32", "shape": [64, 64, 3, 3], "data_offsets": [0, 147456]}, …}
rest     the numbers, little-endian; offsets count from here
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from models.stored import DAMAGE, Stored, WeightsError, check_total, count, is_shape, shown
from models.torch_file import numbers

MAX_HEADER = 2**23  # bytes; a DenseNet-201's has 0.1 MB
_METADATA = "__metadata__"
_DTYPES = {
    "F16": ("float16", 2), "BF16": ("bfloat16", 2), "F32": ("float32", 4), "F64": ("float64", 8), "BOOL": ("bool", 1),
    "U8": ("uint8", 1), "I8": ("int8", 1), "U16": ("uint16", 2), "I16": ("int16", 2), "U32": ("uint32", 4),
    "I32": ("int32", 4), "U64": ("uint64", 8), "I64": ("int64", 8),
}  # fmt: skip


def is_safetensors(path: Path) -> bool:
    """Whether the file begins like one: a length that could be a header's, and a brace."""
    with path.open("rb") as file:
        start = file.read(9)
    return len(start) == 9 and start[8:] == b"{" and 2 <= int.from_bytes(start[:8], "little") < 2**40


def read(path: Path, file: IO[bytes]) -> dict[str, Stored]:
    """The tensors, to be read as long as the file is open."""

    def refused(reason: str) -> WeightsError:
        return WeightsError(f"{path}: {reason}; fetch it again")

    length = int.from_bytes(file.read(8), "little")
    size = file.seek(0, 2) - 8 - length  # of what follows the header
    if length > MAX_HEADER or size < 0:
        raise refused(f"its header claims {length} bytes, which it cannot have")
    check_total(path, size)
    file.seek(8)
    try:
        header = json.loads(file.read(length).decode(), object_pairs_hook=_unique)
    except DAMAGE as error:
        raise refused(f"its header cannot be read ({shown(error)})") from error
    found, ends = {}, [(0, 0)]
    for name, entry in header.items():
        if name == _METADATA:
            continue
        shape, dtype, start, end = _entry(path, name, entry)
        if not 0 <= start <= end <= size or end - start != count(shape) * _DTYPES[dtype][1]:
            raise refused(f"tensor {shown(name)} of shape {shape} cannot lie at {start} to {end} of {size} bytes")
        ends.append((start, end))
        found[name] = _stored(file, shape, _DTYPES[dtype][0], 8 + length + start, end - start)
    ends.sort()
    if any(start < before for (_, before), (start, _) in itertools.pairwise(ends)):
        raise refused("two of its tensors overlap")
    if not found:
        raise refused("it holds no tensors")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands there twice")
    return table


def _entry(path: Path, name: str, entry: Any) -> tuple[tuple[int, ...], str, int, int]:
    """Shape, type, start and end."""
    fields = entry if type(entry) is dict else {}
    dtype, shape, offsets = str(fields.get("dtype")), fields.get("shape"), fields.get("data_offsets")
    known = dtype in _DTYPES and len(fields) == 3
    if not known or type(shape) is not list or not is_shape(shape) or type(offsets) is not list or len(offsets) != 2:
        raise WeightsError(f"{path}: tensor {shown(name)} is not described as safetensors are; fetch it again")
    if not all(type(offset) is int for offset in offsets):
        raise WeightsError(f"{path}: tensor {shown(name)} lies at no whole number of bytes; fetch it again")
    return tuple(shape), dtype, offsets[0], offsets[1]


def _stored(file: IO[bytes], shape: tuple[int, ...], dtype: str, place: int, size: int) -> Stored:
    def data() -> np.ndarray:
        file.seek(place)
        return numbers(file.read(size), dtype).reshape(shape)

    return Stored(shape, dtype, data)
