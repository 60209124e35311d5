"""A worker's answer as one row of numbers, and a row of whole numbers as an answer."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tffapps.engine.tff_messages import array_pb2, data_type_pb2, executor_pb2
from tffapps.site.relay import Refused

_FLOATS = {data_type_pb2.DT_FLOAT: ("float32_list", "<f4"), data_type_pb2.DT_DOUBLE: ("float64_list", "<f8")}


def row(content: bytes) -> np.ndarray:
    """All numbers of a serialised ComputeResponse in order; Refused if it holds anything but floating-point arrays."""
    parts = [_numbers(array) for array in _arrays(executor_pb2.ComputeResponse.FromString(content).value)]
    return np.concatenate(parts) if parts else np.zeros(0)


def answer(whole: np.ndarray) -> bytes:
    """A serialised ComputeResponse with these int64 numbers in one array."""
    array = array_pb2.Array(
        dtype=data_type_pb2.DT_INT64,
        shape=array_pb2.ArrayShape(dim=[len(whole)]),
        content=whole.astype("<i8").tobytes(),
    )
    return executor_pb2.ComputeResponse(value=executor_pb2.Value(array=array)).SerializeToString()


def _arrays(value: Any) -> Iterator[Any]:
    kind = value.WhichOneof("value")
    if kind == "struct":
        for element in value.struct.element:
            yield from _arrays(element.value)
    elif kind == "array":
        yield value.array
    else:
        raise Refused(f"{kind or 'nothing'} in an answer that is to be summed")


def _numbers(array: Any) -> np.ndarray:
    if array.dtype not in _FLOATS:
        raise Refused("other than floating-point numbers in an answer that is to be summed")
    listed, dtype = _FLOATS[array.dtype]
    plain = np.frombuffer(array.content, dtype) if array.content else np.asarray(getattr(array, listed).value)
    return plain.astype(np.float64)
