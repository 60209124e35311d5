"""PyTorch's and safetensors' files written byte by byte, right or wrong in any place, without PyTorch."""

from __future__ import annotations

import dataclasses
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from models import torchvision_names, vgg

STORAGES = {"float16": "HalfStorage", "float32": "FloatStorage", "float64": "DoubleStorage", "int64": "LongStorage"}
STORAGES["int32"] = "IntStorage"
SAFE = {"float16": "F16", "float32": "F32", "float64": "F64", "int64": "I64", "int32": "I32"}


@dataclasses.dataclass
class Entry:
    """A tensor as the pickle describes it, and the bytes of its storage; what is not given is right."""

    data: bytes
    storage: str
    size: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    key: str | None = None

    @classmethod
    def of(cls, array: np.ndarray, storage: str = "", **changes: Any) -> Entry:
        strides = tuple(stride // array.itemsize for stride in np.ascontiguousarray(array).strides)
        storage = storage or f"torch {STORAGES[array.dtype.name]}"
        right = cls(array.tobytes(), storage, array.size, array.shape, strides if array.ndim else ())
        return dataclasses.replace(right, **changes)


def state_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Entry]:
    return {name: Entry.of(array) for name, array in arrays.items()}


def pickled(entries: Mapping[str, Entry]) -> bytes:
    """The opcodes that torch.save writes for an OrderedDict of tensors (protocol 2)."""
    parts = [b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01("]
    for place, (name, entry) in enumerate(entries.items()):
        parts += [_text(name), b"ctorch._utils\n_rebuild_tensor_v2\n(("]
        module, kind = entry.storage.split(" ")
        parts += [_text("storage"), f"c{module}\n{kind}\n".encode(), _text(entry.key or str(place)), _text("cpu")]
        parts += [_number(entry.size), b"tQ", _number(entry.offset), _numbers(entry.shape), _numbers(entry.strides)]
        parts += [b"\x89h\x00)RtR"]
    return b"".join([*parts, b"u}", _text("_metadata"), b"}sb."])


def pth(
    entries: Mapping[str, Entry], program: bytes | None = None, compression: int = zipfile.ZIP_STORED, **more: bytes
) -> bytes:
    """A whole file; `program` is another pickle in the right one's place, `more` are members besides."""
    contents = io.BytesIO()
    with zipfile.ZipFile(contents, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickled(entries) if program is None else program)
        archive.writestr("archive/byteorder", b"little")
        for place, entry in enumerate(entries.values()):
            archive.writestr(f"archive/data/{place}", entry.data)
        for name, data in more.items():
            archive.writestr(f"archive/{name}", data)
    return contents.getvalue()


def safetensors(arrays: Mapping[str, np.ndarray], header: Any = None, length: int | None = None) -> bytes:
    """A whole file; `header` (a change of the right one) or `length` may be wrong."""
    right, place = {}, 0
    for name, array in arrays.items():
        offsets = [place, place + array.nbytes]
        right[name] = {"dtype": SAFE[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets}
        place += array.nbytes
    text = json.dumps(header(right) if header else {"__metadata__": {"format": "pt"}, **right}).encode()
    data = b"".join(array.tobytes() for array in arrays.values())
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _number(value: int) -> bytes:
    return pickle.dumps(value, 2)[2:-1]  # without protocol and STOP


def _numbers(values: Sequence[int]) -> bytes:
    return b"(" + b"".join(map(_number, values)) + b"t"


def torch_names(model: tf.keras.Model) -> dict[str, np.ndarray]:
    """The model's weights under torchvision's names and in PyTorch's order, with a counter as BatchNorm has one."""
    arrays = {}
    names = [name for name, _ in torchvision_names._backbone(model)]
    for name, array in zip(names, model.get_weights()):
        arrays[name] = np.ascontiguousarray(array.transpose(3, 2, 0, 1)) if array.ndim == 4 else array
        if name.endswith("running_var"):
            arrays[name.replace("running_var", "num_batches_tracked")] = np.array(5)
    return arrays


def shuffled(model: tf.keras.Model) -> None:
    """Gives every weight a value of its own."""
    generator = np.random.default_rng(0)
    model.set_weights([generator.random(v.shape).astype(np.float32) + 0.5 for v in model.weights])


def small(width: int = 4, upto: str = "relu1_2") -> tf.keras.Model:
    model = vgg.build(upto, width=width)
    shuffled(model)
    return model


ARRAYS = torch_names(small())
