"""Reading weights out of files, as arrays in the order of `model.weights`. Nothing here changes a model or runs code.

A file is told by its content, not by its name:

    HDF5 signature             Keras's .h5 (`models.h5_file`)
    a zip of *.npy             .npz: arrays named 0000, 0001, … are `models.weights.save_npz`'s, in the model's order;
                               torchvision's names (layer1.0.conv1.weight, …) are ResNet-18's, DenseNet's or VGG-19's,
                               kernels as Keras has them: height × width × in × out
    a zip with a data.pkl      PyTorch's .pth or .pt (`models.torch_file`), torchvision's names, kernels as PyTorch has
                               them: out × in × height × width
    a length, then a brace     .safetensors (`models.safetensors_file`), the same names and order as .pth
"""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import tensorflow as tf

from models import h5_file, npz_file, safetensors_file, torch_file, torchvision_names
from models.named_arrays import check_finite
from models.stored import DAMAGE, Stored, WeightsError, unreadable

__all__ = ["Contents", "State", "WeightsError", "opened_state", "read_arrays", "read_npz"]

KINDS = "an .h5, .npz, .pth or .safetensors file"


class Contents(NamedTuple):
    arrays: list[np.ndarray]  # in the order of `model.weights`; those the model has no layer for come last
    names: str  # whose conventions the weights were trained under: "keras" or "torchvision"


class State(NamedTuple):
    """Arrays by name, to be read while the file is open."""

    arrays: dict[str, Stored]
    torch_order: bool  # whether kernels are out × in × height × width


def read_arrays(path: Path, model: tf.keras.Model) -> Contents:
    _check_there(path)
    try:
        if h5py.is_hdf5(path):
            contents = Contents(h5_file.read(path, model), "keras")
        else:
            with opened_state(path) as state:
                if _is_list(state):
                    contents = Contents(_listed(state), "keras")
                else:
                    arrays = torchvision_names.ordered(path, state.arrays, model, torch_order=state.torch_order)
                    contents = Contents(arrays, "torchvision")
    except WeightsError:
        raise
    except DAMAGE as error:
        raise unreadable(path, error) from error
    check_finite(path, contents.arrays)
    return contents


def read_npz(path: Path) -> list[np.ndarray]:
    """The arrays of a file written by `models.weights.save_npz`, in order."""
    with opened_state(path) as state:
        if not _is_list(state):
            raise WeightsError(f"{path}: not a list of weights; expected an .npz written by save_npz")
        return _listed(state)


@contextlib.contextmanager
def opened_state(path: Path) -> Iterator[State]:
    """The named arrays of an .npz, PyTorch's or .safetensors file. What is wrong with it is a `WeightsError`."""
    _check_there(path)
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if torch_file.is_torch(archive):
                    yield State(torch_file.read(path, archive), True)
                elif npz_file.is_npz(archive):
                    yield State(npz_file.read(path, archive), False)
                else:
                    raise WeightsError(f"{path}: a zip file that holds no arrays; expected {KINDS}")
        elif safetensors_file.is_safetensors(path):
            with path.open("rb") as file:
                yield State(safetensors_file.read(path, file), True)
        else:
            raise WeightsError(_unknown(path))
    except WeightsError:
        raise
    except DAMAGE as error:
        raise unreadable(path, error) from error


def _check_there(path: Path) -> None:
    if not path.exists():
        raise WeightsError(f"{path}: no such file; --weights takes imagenet, random or {KINDS}")
    if path.is_dir():
        raise WeightsError(f"{path}: is a folder; --weights takes imagenet, random or {KINDS}")


def _unknown(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(len(torch_file.LEGACY))
    if start == torch_file.LEGACY:
        return (
            f"{path}: a PyTorch file of the kind before version 1.6, which is not read;"
            " save it again with a newer one: torch.save(torch.load(…), …)"
        )
    if start[:1] == b"\x80":
        return f"{path}: a bare pickle, which is not read; expected {KINDS}"
    return f"{path}: neither HDF5 (.h5) nor NumPy (.npz), PyTorch (.pth) or safetensors, or cut short; fetch it again"


def _is_list(state: State) -> bool:
    return not state.torch_order and sorted(state.arrays) == [f"{index:04d}" for index in range(len(state.arrays))]


def _listed(state: State) -> list[np.ndarray]:
    return [state.arrays[key].read() for key in sorted(state.arrays)]
