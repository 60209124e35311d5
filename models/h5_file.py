"""Keras's HDF5 files, as arrays in the order of `model.weights`. Two kinds:

    as Keras 2 writes it and keras.applications distributes it: layers listed in order
    as Keras writes it under the name *.weights.h5: layers found by kind and number (conv2d_7)

HDF5 can make other files' content appear as its own (external links, external storage, virtual datasets): it would be
read from this machine and sent on as weights, so such files are refused. So is a dataset that claims more than it has.
"""

from __future__ import annotations

import mmap
import re
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tensorflow as tf

from models.stored import WeightsError, check_total, shown

LAYER_FOLDERS = ("_layer_checkpoint_dependencies", "layers")  # where Keras 2.14 and Keras 3 keep the layers
_MAX_NAMES = 2**20  # bytes of one attribute; HDF5 itself stops at 64 KiB
_HEAP = b"GCOL\x01\0\0\0"  # how a heap begins; its length follows
_DEFLATES_TO = 1032  # bytes that one compressed byte can stand for at most


def read(path: Path, model: tf.keras.Model) -> list[np.ndarray]:
    """Arrays the model has no layer for come last."""
    _check_heaps(path)
    with h5py.File(path, "r") as file:
        _check_links(path, file)
        return _Reader(path).arrays(file, model)


def _check_heaps(path: Path) -> None:
    """That texts of varying length lie in heaps as they should: in a damaged one HDF5's library can look for ever."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_HEAP)
        while start >= 0:
            place, end = start + 16, start + int.from_bytes(data[start + 8 : start + 16], "little")
            while place + 16 <= end:  # an object's number, 6 bytes, its length, and what it holds
                length = int.from_bytes(data[place + 8 : place + 16], "little")
                free = data[place : place + 2] == b"\0\0"  # the rest of the heap, its own 16 bytes counted in
                place += length if free else 16 + -(-length // 8) * 8
                if (free and length < 16) or place > min(end, len(data)):
                    raise WeightsError(f"{path}: damaged: a heap of it cannot be read; fetch it again")
            start = data.find(_HEAP, start + 1)


def _check_links(path: Path, file: h5py.File) -> None:
    names: list[str] = []
    file.visit_links(names.append)  # every link of the file, none of them followed; h5py takes no error from in there
    for name in names:
        if isinstance(file.get(name, getlink=True), h5py.ExternalLink):
            raise WeightsError(f"{path}: {shown(name)} is a link to another file, which is not read; fetch it again")


class _Reader:
    """Reads datasets of one file, and counts what they claim."""

    def __init__(self, path: Path) -> None:
        self._path, self._bytes = path, 0

    def arrays(self, file: h5py.File, model: tf.keras.Model) -> list[np.ndarray]:
        root = file.get("model_weights", file)  # a saved model, or its weights alone
        if _has_attribute(root, "layer_names"):
            return [
                self._array(root[layer][weight])
                for layer in _attribute(root, "layer_names")
                for weight in _attribute(root[layer], "weight_names")
            ]
        for folder in LAYER_FOLDERS:
            if folder in file:
                return self._by_kind_and_number(file[folder], model)
        raise WeightsError(f"{self._path}: an HDF5 file, but not one of Keras weights; expected those of {model.name}")

    def _array(self, dataset: Any) -> np.ndarray:
        if not isinstance(dataset, h5py.Dataset):
            raise WeightsError(f"{self._path}: a group where an array is expected; fetch it again")
        name = shown(dataset.name)
        if dataset.is_virtual or dataset.external:
            raise WeightsError(f"{self._path}: {name} lies in another file, which is not read; fetch it again")
        if dataset.dtype.kind != "f":
            raise WeightsError(f"{self._path}: {name} holds {dataset.dtype}, no weights; fetch it again")
        size = dataset.size * dataset.dtype.itemsize
        self._bytes += size
        check_total(self._path, self._bytes)
        compressed = dataset.id.get_create_plist().get_nfilters() > 0
        if dataset.id.get_storage_size() * (_DEFLATES_TO if compressed else 1) < size:
            raise WeightsError(
                f"{self._path}: {name} claims the shape {dataset.shape}, which it does not hold; fetch it again"
            )
        return np.asarray(dataset)

    def _by_kind_and_number(self, folder: Any, model: tf.keras.Model) -> list[np.ndarray]:
        arrays: list[np.ndarray] = []
        found = set()
        seen: Counter[str] = Counter()
        in_backbone = True
        for layer in model.layers:
            kind = _snake_case(type(layer).__name__)
            name = f"{kind}_{seen[kind]}" if seen[kind] else kind
            seen[kind] += 1
            in_backbone = in_backbone and layer.name != "features"
            if not layer.weights:
                continue
            if layer.name in folder:  # later versions of Keras 3 go by the layers' own names
                name = layer.name
            if name in folder:
                found.add(name)
                arrays += self._variables(folder[name])
            elif in_backbone:
                raise WeightsError(
                    f"{self._path}: not the weights of {model.name}; it has no {name} for layer {layer.name}"
                )
        for name in folder:
            if name not in found:
                arrays += self._variables(folder[name])
        return arrays

    def _variables(self, group: Any) -> list[np.ndarray]:
        if "vars" not in group:
            return []
        return [self._array(group["vars"][key]) for key in sorted(group["vars"], key=int)]


def _has_attribute(group: Any, name: str) -> bool:
    return name in group.attrs or f"{name}0" in group.attrs


def _attribute(group: Any, name: str) -> list[str]:
    """A list of names, which Keras cuts into name0, name1, … where HDF5's limit on attributes asks for it."""
    parts = [_texts(group, name)] if name in group.attrs else []
    while f"{name}{len(parts)}" in group.attrs:
        parts.append(_texts(group, f"{name}{len(parts)}"))
    return [text.decode() if isinstance(text, bytes) else str(text) for part in parts for text in part]


def _texts(group: Any, name: str) -> Any:
    described = group.attrs.get_id(name)
    if len(described.shape) != 1 or described.shape[0] * described.dtype.itemsize > _MAX_NAMES:
        raise ValueError(f"attribute {name} claims the shape {described.shape} of {described.dtype}")
    return group.attrs[name]


def _snake_case(name: str) -> str:
    """Conv2D → conv2d, BatchNormalization → batch_normalization: the spelling inside *.weights.h5 files."""
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
