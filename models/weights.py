"""Pre-trained weights: ImageNet's, a file's, or none, and a record of which it was for the tables."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import tensorflow as tf

from models.classifiers import HEAD_KERNELS, base_of
from models.initialise import seed_weights
from models.names import CONVOLUTIONAL, check_name, is_own
from models.weight_files import WeightsError, read_arrays, read_npz
from models.weight_sources import imagenet_file

__all__ = ["WeightsError", "WeightsUsed", "check_shapes", "fill", "fitting_whole", "load", "load_npz", "save_npz"]

# (file, its arrays, model) -> which part of the model they are for, and how many weights that is; or WeightsError
Fitting = Callable[[Path, list[np.ndarray], tf.keras.Model], tuple[str, int]]


@dataclasses.dataclass(frozen=True)
class WeightsUsed:
    kind: str  # "imagenet", "random" or "file"
    source: str  # the file, or the seed
    sha256: str | None  # of the file's content; None for random weights
    part: str = "none"  # what came from the file: "backbone", "model" (head included) or "none"
    names: str = "keras"  # whose conventions the weights were trained under: "keras" or "torchvision"

    @property
    def label(self) -> str:
        """How tables call it."""
        return f"file:{Path(self.source).name}" if self.kind == "file" else self.kind


def load(model: tf.keras.Model, name: str, weights: str, *, seed: int) -> WeightsUsed:
    """Gives a model of `models.classifiers.build` its weights: "imagenet", "random" or a file's.

    A file is Keras's .h5, an .npz of `save_npz` or with torchvision's names, PyTorch's .pth or .pt, or .safetensors;
    `models.weight_files` says how they are told apart.

    Whatever the file does not cover starts from the seed: the result depends on `weights` and `seed` alone.
    A file that holds only a backbone, or another head, leaves this model's head random; `WeightsUsed.part`
    says which. After a `WeightsError` the model is as it was.
    """
    if is_own(name):
        return fill(model, weights, seed, lambda: _no_imagenet(name), fitting_whole)
    check_name(name)
    return fill(model, weights, seed, lambda: imagenet_file(name), _fitting_part)


def fill(model: tf.keras.Model, weights: str, seed: int, imagenet: Callable[[], Path], fitting: Fitting) -> WeightsUsed:
    """`load` for any network: `imagenet` finds its file of that name."""
    if weights == "random":
        seed_weights(model, seed)
        return WeightsUsed("random", f"seed {seed}", None)
    kind = "imagenet" if weights == "imagenet" else "file"
    path = imagenet() if kind == "imagenet" else Path(weights)
    try:
        arrays, names = read_arrays(path, model)
        part, count = fitting(path, arrays, model)
    except WeightsError as error:
        if kind == "imagenet":
            raise WeightsError(f"{error}; delete that file to download it again") from error
        raise
    seed_weights(model, seed)
    _assign(model.weights[:count], arrays[:count])
    return WeightsUsed(kind, str(path), hashlib.sha256(path.read_bytes()).hexdigest(), part, names)


def save_npz(model: tf.keras.Model, path: str | os.PathLike[str]) -> None:
    """All weights in the order of `model.weights`. The file appears whole or not at all."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **{f"{index:04d}": array for index, array in enumerate(model.get_weights())})
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_npz(model: tf.keras.Model, path: str | os.PathLike[str]) -> None:
    """Sets all weights of any model from a file of `save_npz`; every shape must fit."""
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"{path}: no such file; expected the weights of {model.name} as .npz")
    arrays = read_npz(path)
    if len(arrays) != len(model.weights):
        raise WeightsError(f"{path}: {len(arrays)} arrays; {model.name} expects {len(model.weights)}")
    check_shapes(path, arrays, model.weights, model.name)
    _assign(model.weights, arrays)


def _assign(variables: list[tf.Variable], arrays: list[np.ndarray]) -> None:
    for variable, array in zip(variables, arrays):
        variable.assign(array.astype(variable.dtype.as_numpy_dtype, copy=False))


def check_shapes(path: Path, arrays: list[np.ndarray], variables: list[tf.Variable], name: str) -> None:
    for array, variable in zip(arrays, variables):
        expected = tuple(variable.shape)
        if array.shape != expected:
            raise WeightsError(f"{path}: not the weights of {name}; {array.shape} where {variable.name} is {expected}")


def fitting_whole(path: Path, arrays: list[np.ndarray], model: tf.keras.Model) -> tuple[str, int]:
    """A file holds all weights of the model, or is refused."""
    if len(arrays) != len(model.weights):
        raise WeightsError(f"{path}: {len(arrays)} arrays; {model.name} has {len(model.weights)}")
    check_shapes(path, arrays, model.weights, model.name)
    return "model", len(arrays)


def _no_imagenet(name: str) -> NoReturn:
    raise WeightsError(f"{name} has no ImageNet weights; choose --weights random or --weights FILE")


def _fitting_part(path: Path, arrays: list[np.ndarray], model: tf.keras.Model) -> tuple[str, int]:
    """Which part of a classifier the arrays are for; raises where the backbone is not this model's."""
    whole = len(model.weights)
    backbone = len(base_of(model).weights)
    if len(arrays) < backbone:
        raise WeightsError(
            f"{path}: not the weights of {model.name}; {len(arrays)} arrays where its backbone has {backbone}"
        )
    check_shapes(path, arrays[:backbone], model.weights[:backbone], model.name)
    rest = [array.shape for array in arrays[backbone:]]
    if rest and rest == [tuple(variable.shape) for variable in model.weights[backbone:whole]]:
        return "model", whole
    if any(len(shape) > 2 and shape not in _head_kernels(model) for shape in rest):
        raise WeightsError(
            f"{path}: not the weights of {model.name}; {len(rest)} arrays more than its backbone's {backbone}"
        )
    return "backbone", backbone


def _head_kernels(model: tf.keras.Model) -> list[tuple[int, ...]]:
    """The kernels that a head may have; all else of it are matrices and vectors."""
    channels = int(base_of(model).output_shape[-1])
    return [
        (size, size, inputs, filters)
        for filters, _ in CONVOLUTIONAL.values()
        for size, inputs in zip(HEAD_KERNELS, (channels, filters))
    ]
