"""A worker's answer, compared with the type of what was asked before any of it is read.

TFF reads a value of whatever kind the answer says it is, and evaluates a graph in this process if that is a sequence.
Here only arrays and structs of arrays are read: the right number of elements, the right dtype, a shape that fits.
"""

import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tffapps.engine.tff_internals import array_pb2, data_type_pb2, executor_pb2

_MOST_DIMENSIONS = 32  # NumPy's
_OVERHEAD = 1024  # bytes that an array or a struct may take beside its content: tags, names, dimensions


class BadAnswer(RuntimeError):
    """An answer that is not a value of the expected type."""


def read(response: bytes, expected: tff.Type, most_bytes: float = math.inf) -> Any:
    """The value in a serialised ComputeResponse, as TFF reads it."""
    limit = min(most_bytes, _size_limit(expected))
    if len(response) > limit:
        raise BadAnswer(f"expected {_shown(expected)} in at most {limit} bytes, found {len(response)} bytes")
    try:
        answer = executor_pb2.ComputeResponse.FromString(response).value
        _check(answer, expected, "")
        return tff.framework.deserialize_value(answer, expected)[0]
    except (DecodeError, OverflowError, TypeError, ValueError) as error:  # an empty array that NumPy refuses, say
        raise BadAnswer(f"expected {_shown(expected)}, found what cannot be read ({type(error).__name__})") from None


def _check(value: executor_pb2.Value, expected: tff.Type, path: str) -> None:
    """`path` is where in the answer the value is, such as [0].weights[2]."""
    kind = value.WhichOneof("value")
    if isinstance(expected, tff.StructType) and kind == "struct":
        types, elements = tff.structure.to_elements(expected), value.struct.element
        if len(elements) != len(types):
            raise _bad(expected, path, f"a struct of {len(elements)} elements")
        for number, ((name, element_type), element) in enumerate(zip(types, elements)):
            if element.name not in ("", name or ""):  # the worker leaves names out
                raise _bad(expected, path, f"the name {element.name[:40]!r} for element {number}")
            _check(element.value, element_type, f"{path}.{name}" if name else f"{path}[{number}]")
    elif isinstance(expected, tff.TensorType) and kind == "array":
        _check_array(value.array, expected, path)
    else:
        raise _bad(expected, path, f"{kind or 'nothing'}; only arrays and structs are read")


def _check_array(array: array_pb2.Array, expected: tff.TensorType, path: str) -> None:
    dtype, shape = tf.as_dtype(expected.dtype.type), expected.shape
    if array.dtype != dtype.as_datatype_enum:
        names = data_type_pb2.DataType
        raise _bad(expected, path, names.Name(array.dtype) if array.dtype in names.values() else "an unknown dtype")
    rank = len(array.shape.dim)
    if array.shape.unknown_rank or rank > _MOST_DIMENSIONS or (shape is not None and rank != len(shape)):
        raise _bad(expected, path, f"an array of {'unknown' if array.shape.unknown_rank else rank} dimensions")
    given = tuple(array.shape.dim)
    if any(size < 0 or wanted not in (None, size) for size, wanted in zip(given, given if shape is None else shape)):
        raise _bad(expected, path, f"an array of shape {list(given)}")
    # As TFF writes them: strings and scalars one by one, all others as the bytes of the whole array.
    if shape == () or dtype == tf.string:
        unit, each, length = "values", 2 if dtype.is_complex else 1, len(getattr(array, f"{dtype.name}_list").value)
    else:
        unit, each, length = "bytes", expected.dtype.itemsize, len(array.content)
    if length != each * math.prod(given):
        raise _bad(expected, path, f"an array of shape {list(given)} with {length} {unit}")


def _bad(expected: tff.Type, path: str, found: str) -> BadAnswer:
    where = f"at {path.lstrip('.')} " if path else ""
    return BadAnswer(f"{where}expected {_shown(expected)}, found {found}")


def _shown(expected: tff.Type) -> str:
    return f"a struct of {len(expected)} elements" if isinstance(expected, tff.StructType) else str(expected)


def _size_limit(expected: tff.Type) -> float:
    """Bytes that an answer of a type can take; no limit where it holds strings or has unknown dimensions."""
    if isinstance(expected, tff.StructType):
        return _OVERHEAD + sum(_size_limit(one) for _, one in tff.structure.iter_elements(expected))
    if not isinstance(expected, tff.TensorType) or expected.dtype.type is np.str_:
        return math.inf
    open_ = expected.shape is None or None in expected.shape
    return math.inf if open_ else _OVERHEAD + expected.dtype.itemsize * math.prod(expected.shape)
