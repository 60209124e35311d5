"""Pre-trained weights: ImageNet's, a file's, or none, and a record of which it was for the tables."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from models.classifiers import base_of
from models.initialise import seed_weights
from models.names import check_name
from models.weight_files import WeightsError, read_arrays, read_npz

__all__ = ["WeightsError", "WeightsUsed", "check_shapes", "fill", "keras_file", "load", "load_npz", "save_npz"]

SERVER = "https://storage.googleapis.com/tensorflow/keras-applications"
# name → folder on the server, file (Keras's own name for it), MD5 where Keras gives one
IMAGENET: dict[str, tuple[str, str, str | None]] = {
    "mobilenetv2": (
        "mobilenet_v2",
        "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5",
        None,
    ),
    "densenet121": (
        "densenet",
        "densenet121_weights_tf_dim_ordering_tf_kernels_notop.h5",
        "30ee3e1110167f948a6b9946edeeb738",
    ),
    "densenet169": (
        "densenet",
        "densenet169_weights_tf_dim_ordering_tf_kernels_notop.h5",
        "b8c4d4c20dd625c148057b9ff1c1176b",
    ),
    "densenet201": (
        "densenet",
        "densenet201_weights_tf_dim_ordering_tf_kernels_notop.h5",
        "c13680b51ded0fb44dff2d8f86ac8bb1",
    ),
}
CONNECT_SECONDS = 3.0
STALL_SECONDS = 30.0  # a download that is silent for this long is given up
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
    check_name(name)
    return fill(model, weights, seed, lambda: _imagenet_file(name), _fitting_part)


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
    if any(len(shape) > 2 for shape in rest):  # a head has matrices and vectors only
        raise WeightsError(
            f"{path}: not the weights of {model.name}; {len(rest)} arrays more than its backbone's {backbone}"
        )
    return "backbone", backbone


def _imagenet_file(name: str) -> Path:
    if name not in IMAGENET:
        raise WeightsError(
            f"{name}: Keras has no ImageNet weights for it, only for {', '.join(IMAGENET)};"
            " choose one of those, --weights random or --weights FILE"
        )
    return keras_file(*IMAGENET[name])


def keras_file(folder: str, file_name: str, md5: str | None) -> Path:
    """A file of keras.applications in Keras's cache, downloaded if need be."""
    cached = Path.home() / ".keras" / "models" / file_name
    if cached.exists():
        return cached
    url = f"{SERVER}/{folder}/{file_name}"
    way_out = f"place the file at {cached}, or choose --weights random or --weights FILE"
    host, port = _first_hop(url)
    if not _reachable(host, port):
        raise WeightsError(f"{url}: {host} cannot be reached from here; {way_out}")
    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(STALL_SECONDS)  # Keras's download has no time limit of its own
    try:
        return Path(tf.keras.utils.get_file(file_name, url, cache_subdir="models", file_hash=md5))
    except Exception as error:  # Keras raises plain Exception for a failed download
        raise WeightsError(f"{url}: download failed ({error}); {way_out}") from error
    finally:
        socket.setdefaulttimeout(patience)


def _first_hop(url: str) -> tuple[str, int]:
    """The host a download connects to first: the proxy where the environment names one."""
    target = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(target.scheme)
    if proxy and not urllib.request.proxy_bypass(target.hostname or ""):
        address = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        return address.hostname or "", address.port or (443 if address.scheme == "https" else 80)
    return target.hostname or "", target.port or 443


def _reachable(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
