"""Answers of a worker: read if they are what was asked for, refused otherwise, and never evaluated."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import array_pb2, computation_pb2, data_type_pb2, executor_pb2

from tffapps.engine import answers
from tffapps.engine.answers import BadAnswer

Value, Array = executor_pb2.Value, array_pb2.Array
FLOATS = tff.TensorType(np.float32, (2, 3))
DTYPES = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
    np.float32, np.float64, np.complex64, np.complex128, tf.bfloat16.as_numpy_dtype,
]  # fmt: skip


def value(content, value_type) -> Value:
    return tff.framework.serialize_value(content, tff.to_type(value_type))[0]


def floats(*dims: int, length: int, dtype: int = data_type_pb2.DT_FLOAT) -> Value:
    return Value(array=Array(dtype=dtype, shape=array_pb2.ArrayShape(dim=dims), content=bytes(length)))


def struct(*elements: Value, names: tuple[str, ...] = ()) -> Value:
    both = zip(names or [""] * len(elements), elements)
    return Value(struct=Value.Struct(element=[Value.Struct.Element(name=name, value=one) for name, one in both]))


def read(answer: Value, expected, **limit):
    return answers.read(executor_pb2.ComputeResponse(value=answer).SerializeToString(), tff.to_type(expected), **limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0, 3)])
def test_numbers_of_every_dtype(dtype, shape):
    content = np.ones(shape, dtype)[()]
    for expected in (shape, tuple(None for _ in shape)):
        found = read(value(content, (dtype, shape)), (dtype, expected))
        assert found.dtype == dtype and found.shape == shape and np.all(found == content)


def test_strings():
    assert read(value(b"a\0", np.str_), np.str_) == b"a\0"
    words = np.array([[b"x", b"yy\0"]], object)
    for shape in ((1, 2), (None, 2), None):
        assert read(value(words, (np.str_, (1, 2))), tff.TensorType(np.str_, shape)).tolist() == words.tolist()


def test_an_unknown_rank():
    content = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(read(value(content, FLOATS), tff.TensorType(np.float32, None)), content)


def test_structs_with_and_without_their_names():
    named = tff.to_type(collections.OrderedDict(b=np.int32, a=(np.float32, np.str_)))
    inner = struct(value(np.float32(0.5), np.float32), value(b"q", np.str_))
    for names in ((), ("b", "a")):
        found = read(struct(value(np.int32(1), np.int32), inner, names=names), named)
        assert found[0] == 1 and list(found[1]) == [0.5, b"q"]
    assert len(read(struct(), ())) == 0


SEQUENCE = value(tf.data.Dataset.range(3), tff.SequenceType(np.int64))
FEDERATED = value([1], tff.FederatedType(np.int32, tff.CLIENTS))
NOT_READ = {
    "sequence": SEQUENCE,
    "computation": Value(computation=computation_pb2.Computation()),
    "federated": FEDERATED,
    "nothing": Value(),
}


@pytest.mark.parametrize("kind", NOT_READ)
def test_other_kinds_are_refused_wherever_they_are(kind, monkeypatch):
    monkeypatch.setattr(tff.framework, "deserialize_value", lambda *_: pytest.fail("it was read"))
    bad, good = NOT_READ[kind], value(np.int32(1), np.int32)
    with pytest.raises(BadAnswer, match=rf"^expected int32, found {kind}; only arrays and structs are read$"):
        read(bad, np.int32)
    with pytest.raises(BadAnswer, match=rf"^expected a struct of 1 elements, found {kind}; only"):
        read(bad, (np.int32,))
    nested = collections.OrderedDict(x=np.int32, y=(np.int32, np.int32))
    with pytest.raises(BadAnswer, match=rf"^at y\[1\] expected int32, found {kind}; only"):
        read(struct(good, struct(good, bad)), nested)


def test_a_sequence_is_refused_even_where_one_is_expected():
    with pytest.raises(BadAnswer, match=r"expected int64\*, found sequence; only arrays and structs"):
        read(SEQUENCE, tff.SequenceType(np.int64))


WRONG = {
    "another dtype": (floats(2, 3, length=24, dtype=data_type_pb2.DT_INT32), FLOATS, "found DT_INT32"),
    "no dtype": (floats(2, 3, length=24, dtype=data_type_pb2.DT_INVALID), FLOATS, "found DT_INVALID"),
    "a dtype nobody knows": (floats(2, 3, length=24, dtype=99), FLOATS, "found an unknown dtype"),
    "another shape": (floats(3, 2, length=24), FLOATS, r"expected float32\[2,3\], found an array of shape \[3, 2\]"),
    "another rank": (floats(6, length=24), FLOATS, "found an array of 1 dimensions"),
    "a negative size": (floats(-2, -3, length=24), (np.float32, (None, None)), r"of shape \[-2, -3\]"),
    "too many dimensions": (floats(*33 * [1], length=4), tff.TensorType(np.float32, None), "of 33 dimensions"),
    "an unknown rank": (
        Value(array=Array(dtype=1, shape=array_pb2.ArrayShape(unknown_rank=True))), FLOATS, "of unknown dimensions",
    ),
    "too few bytes": (floats(2, 3, length=20), FLOATS, r"of shape \[2, 3\] with 20 bytes"),
    "too many bytes": (floats(2, 3, length=28), FLOATS, r"of shape \[2, 3\] with 28 bytes"),
    "a size that is not there": (floats(10**9, length=4), (np.float32, (None,)), "with 4 bytes"),
    "empty but huge": (floats(0, 2**62, length=0), (np.float32, (None, None)), r"cannot be read \(ValueError\)"),
    "no scalar": (floats(length=4), np.float32, r"of shape \[\] with 0 values"),
    "two scalars": (
        Value(array=Array(dtype=1, float32_list=Array.FloatList(value=[1, 2]))), np.float32, "with 2 values",
    ),
    "a scalar of another list": (
        Value(array=Array(dtype=1, int32_list=Array.IntList(value=[1]))), np.float32, "with 0 values",
    ),
    "half a complex number": (
        Value(array=Array(dtype=8, complex64_list=Array.FloatList(value=[1]))), np.complex64, "with 1 values",
    ),
    "too few strings": (
        Value(array=Array(dtype=7, shape=array_pb2.ArrayShape(dim=[2]), string_list=Array.BytesList(value=[b"x"]))),
        (np.str_, (None,)), r"of shape \[2\] with 1 values",
    ),
    "an array for a struct": (floats(2, 3, length=24), (FLOATS,), "expected a struct of 1 elements, found array"),
    "a struct for an array": (struct(floats(2, 3, length=24)), FLOATS, r"expected float32\[2,3\], found struct"),
    "a short struct": (struct(floats(2, 3, length=24)), (FLOATS, FLOATS), "of 2 elements, found a struct of 1"),
    "a long struct": (struct(*3 * [floats(2, 3, length=24)]), (FLOATS, FLOATS), "of 2 elements, found a struct of 3"),
    "another name": (
        struct(floats(2, 3, length=24), names=("y",)), collections.OrderedDict(x=FLOATS), "the name 'y' for element 0",
    ),
    "a name where there is none": (struct(floats(2, 3, length=24), names=("y",)), (FLOATS,), "the name 'y'"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_is_refused(what):
    answer, expected, message = WRONG[what]
    with pytest.raises(BadAnswer, match=message):
        read(answer, expected)


def test_more_bytes_than_the_type_can_take_are_not_even_parsed():
    many = struct(*10_000 * [Value()])
    with pytest.raises(BadAnswer, match=r"a struct of 1 elements in at most 2072 bytes, found \d{5} bytes"):
        read(many, (FLOATS,))
    text = value(b"x" * 100, np.str_)
    assert read(text, np.str_) == b"x" * 100
    with pytest.raises(BadAnswer, match="expected str in at most 99 bytes"):
        read(text, np.str_, most_bytes=99)


def test_what_is_no_message_at_all():
    with pytest.raises(BadAnswer, match=r"expected int32, found what cannot be read \(DecodeError\)"):
        answers.read(b"\xff\xff\xff", tff.to_type(np.int32))
