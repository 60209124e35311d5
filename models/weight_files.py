"""Reading weights out of files, as arrays in the order of `model.weights`. Nothing here changes a model.

Three kinds of file are read, told apart by their content and not by their name:

    .h5   as Keras 2 writes it and keras.applications distributes it: layers listed in order
    .h5   as Keras writes it under the name *.weights.h5: layers found by kind and number (conv2d_7)
    .npz  as `models.weights.save_npz` writes it: arrays named 0000, 0001, …
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tensorflow as tf

LAYER_FOLDERS = ("_layer_checkpoint_dependencies", "layers")  # where Keras 2.14 and Keras 3 keep the layers
# What a damaged file makes h5py, zipfile and NumPy raise.
_DAMAGE = (
    OSError,
    KeyError,
    ValueError,
    RuntimeError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


class WeightsError(ValueError):
    """Weights that cannot be used; the message is one line that names the file and the way out."""


def read_arrays(path: Path, model: tf.keras.Model) -> list[np.ndarray]:
    """The file's arrays in the order of `model.weights`; arrays the model has no layer for come last."""
    if not path.exists():
        raise WeightsError(f"{path}: no such file; --weights takes imagenet, random or an .h5 or .npz file")
    if path.is_dir():
        raise WeightsError(f"{path}: is a folder; --weights takes imagenet, random or an .h5 or .npz file")
    try:
        if h5py.is_hdf5(path):
            with h5py.File(path, "r") as file:
                arrays = _from_h5(path, file, model)
        elif zipfile.is_zipfile(path):
            arrays = read_npz(path)
        else:
            # Opened only for the reason it cannot be read, if there is one (permissions, an I/O error).
            path.open("rb").close()
            raise WeightsError(f"{path}: neither HDF5 (.h5) nor NumPy (.npz), or cut short; fetch it again")
    except WeightsError:
        raise
    except _DAMAGE as error:
        raise _unreadable(path, error) from error
    for array in arrays:
        if not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
            raise WeightsError(f"{path}: holds values that are not finite numbers; fetch or train it again")
    return arrays


def read_npz(path: Path) -> list[np.ndarray]:
    """The arrays of a file written by `models.weights.save_npz`, in order."""
    try:
        with np.load(path, allow_pickle=False) as file:
            keys = sorted(file.files)
            if keys != [f"{index:04d}" for index in range(len(keys))]:
                raise WeightsError(f"{path}: not a list of weights; expected an .npz written by save_npz")
            return [file[key] for key in keys]
    except WeightsError:
        raise
    except _DAMAGE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> WeightsError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return WeightsError(f"{path}: cannot be read as Keras or NumPy weights ({reason}); fetch it again")


def _from_h5(path: Path, file: Any, model: tf.keras.Model) -> list[np.ndarray]:
    root = file.get("model_weights", file)  # a saved model, or its weights alone
    if _has_attribute(root, "layer_names"):
        return [
            np.asarray(root[layer][weight])
            for layer in _attribute(root, "layer_names")
            for weight in _attribute(root[layer], "weight_names")
        ]
    for folder in LAYER_FOLDERS:
        if folder in file:
            return _by_kind_and_number(path, file[folder], model)
    raise WeightsError(f"{path}: an HDF5 file, but not one of Keras weights; expected those of {model.name}")


def _has_attribute(group: Any, name: str) -> bool:
    return name in group.attrs or f"{name}0" in group.attrs


def _attribute(group: Any, name: str) -> list[str]:
    """A list of names, which Keras cuts into name0, name1, … where HDF5's limit on attributes asks for it."""
    parts = [group.attrs[name]] if name in group.attrs else []
    while f"{name}{len(parts)}" in group.attrs:
        parts.append(group.attrs[f"{name}{len(parts)}"])
    return [text.decode() if isinstance(text, bytes) else str(text) for part in parts for text in part]


def _by_kind_and_number(path: Path, folder: Any, model: tf.keras.Model) -> list[np.ndarray]:
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
            arrays += _variables(folder[name])
        elif in_backbone:
            raise WeightsError(f"{path}: not the weights of {model.name}; it has no {name} for layer {layer.name}")
    for name in folder:
        if name not in found:
            arrays += _variables(folder[name])
    return arrays


def _variables(group: Any) -> list[np.ndarray]:
    if "vars" not in group:
        return []
    return [np.asarray(group["vars"][key]) for key in sorted(group["vars"], key=int)]


def _snake_case(name: str) -> str:
    """Conv2D → conv2d, BatchNormalization → batch_normalization: the spelling inside *.weights.h5 files."""
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
