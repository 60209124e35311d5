"""A PyTorch file (.pth, .pt) as `torch.save` has written it since version 1.6: a zip of one pickle and raw numbers.

    NAME/data.pkl     a pickle that describes the tensors: read by `models.torch_pickle`, which runs nothing
    NAME/data/0, …    the storages, uncompressed
    NAME/byteorder    "little"

Files of before 1.6, which are no zips, and TorchScript archives are refused by name.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from models.stored import Stored, WeightsError, check_total, count, is_shape, shown
from models.torch_pickle import MAX_PICKLE, PickleRefused, Tensor, loads

PICKLE = "data.pkl"
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # a pickle of the number that old files begin with
STATE_DICT = "state_dict"  # where training scripts keep it among other things
PARALLEL = "module."  # what DataParallel puts before every name
_ITEM_BYTES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4}
_ITEM_BYTES.update({"int64": 8, "float64": 8})


def is_torch(archive: zipfile.ZipFile) -> bool:
    return any(name == PICKLE or name.endswith(f"/{PICKLE}") for name in archive.namelist())


def read(path: Path, archive: zipfile.ZipFile) -> dict[str, Stored]:
    """The tensors of the file's state dict, to be read as long as the archive is open."""
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise WeightsError(f"{path}: its archive has two members of one name; fetch it again")
    folder = next(name for name in names if name == PICKLE or name.endswith(f"/{PICKLE}"))[: -len(PICKLE)]
    if f"{folder}constants.pkl" in names:
        raise WeightsError(f"{path}: a TorchScript archive; save its weights alone: torch.save(model.state_dict(), …)")
    members = {member.filename: member for member in archive.infolist()}
    if any(member.compress_type != zipfile.ZIP_STORED for member in members.values()):
        raise WeightsError(f"{path}: its archive is compressed, which torch.save never does; fetch it again")
    check_total(path, sum(member.file_size for member in members.values()))
    if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
        raise WeightsError(f"{path}: written on a big-endian machine; save it again on another")
    if members[f"{folder}{PICKLE}"].file_size > MAX_PICKLE:
        raise WeightsError(f"{path}: its pickle is larger than any state dict's; fetch it again")
    try:
        tensors = _state_dict(loads(archive.read(f"{folder}{PICKLE}")))
    except PickleRefused as error:
        raise WeightsError(f"{path}: not a state dict: {error}; save one: torch.save(model.state_dict(), …)") from error
    storages = _Storages(archive, folder)
    return {name: _stored(path, name, tensor, members, folder, storages) for name, tensor in tensors.items()}


def _state_dict(value: Any) -> dict[str, Tensor]:
    if type(value) is dict and type(value.get(STATE_DICT)) is dict:
        value = value[STATE_DICT]
    found = value.items() if type(value) is dict else ()
    tensors = {name: tensor for name, tensor in found if isinstance(tensor, Tensor) and isinstance(name, str)}
    if not tensors:
        raise PickleRefused("it holds no tensors by name")
    if all(name.startswith(PARALLEL) for name in tensors):
        return {name[len(PARALLEL) :]: tensor for name, tensor in tensors.items()}
    return tensors


class _Storages:
    """Reads members of the archive and keeps the last: many tensors may lie in one."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        self._archive, self._folder = archive, folder
        self._last = ("", b"")

    def data(self, key: str) -> bytes:
        if self._last[0] != key:
            self._last = (key, self._archive.read(f"{self._folder}data/{key}"))
        return self._last[1]


def _stored(
    path: Path,
    name: str,
    tensor: Tensor,
    members: Mapping[str, zipfile.ZipInfo],
    folder: str,
    storages: _Storages,
) -> Stored:
    """The tensor, if what it says of itself is possible and its storage is there."""
    storage, shape, strides, offset = tensor.storage, tensor.shape, tensor.strides, tensor.offset

    def refused(reason: str) -> WeightsError:
        return WeightsError(f"{path}: tensor {shown(name)} {reason}; fetch it again")

    member = members.get(f"{folder}data/{storage.key}")
    if member is None:
        raise refused("has no numbers in the file")
    if storage.size < 0 or storage.size * _ITEM_BYTES[storage.dtype] != member.file_size:
        raise refused(f"claims {storage.size} numbers of {storage.dtype}, {member.file_size} bytes are there")
    if not is_shape(shape) or not is_shape(strides) or len(shape) != len(strides) or not is_shape([offset]):
        raise refused("has a shape, strides or an offset that no tensor has")
    last = offset + sum((side - 1) * stride for side, stride in zip(shape, strides))
    if count(shape) > storage.size or (count(shape) and last >= storage.size):
        raise refused(f"of shape {tuple(shape)} reaches beyond its {storage.size} numbers")
    return Stored(tuple(shape), storage.dtype, lambda: _view(storages.data(storage.key), storage.dtype, tensor))


def _view(data: bytes, dtype: str, tensor: Tensor) -> np.ndarray:
    values = numbers(data, dtype)[tensor.offset :]
    strides = [stride * values.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(values, tensor.shape, strides, writeable=False).copy()


def numbers(data: bytes, dtype: str) -> np.ndarray:
    """Little-endian numbers; bfloat16, which NumPy does not know, is the upper half of a float32."""
    if dtype == "bfloat16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, np.dtype(dtype).newbyteorder("<"))
