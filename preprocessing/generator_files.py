"""A generator of images as a file between clients: an `.npz` without pickle or code, checked by whoever receives it.

    name, precision, sha256    text: the architecture's; "float32", "float16" or "int8"; of all the rest
    width, channels            int64
    size                       int64 (2,): height and width of labels and images
    <layer>.kernel             of that precision
    <layer>.kernel.scale       float32, with int8 only: what 1 stands for, for each filter
    <layer>.bias, …            float32: biases, and scales and shifts of instance norm, a thousandth of a file

int8 is symmetric and has a scale for each filter: w ≈ q · s with s = max |w| / 127, so that no weight is off by more
than s / 2. The SHA-256 tells damage and mixed-up files; who sent a file it does not tell.

A received file is a stranger's: see `preprocessing.npz`. What it must hold follows from its architecture, which is
compared with what is claimed and, where given, with what is expected, before a weight is read.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from models import pix2pix
from models.pix2pix import Architecture
from models.pix2pix_weights import name_of, weights_of
from preprocessing import npz
from preprocessing.errors import Rejected
from preprocessing.files import write
from preprocessing.pix2pix_settings import PRECISIONS

MAX_BYTES = 2**30  # of a whole file, unpacked: pix2pixHD at width 64 has 730 million
MAX_WIDTH, MAX_SIDE = 1024, 2**14
_STEPS = 127  # of int8 to each side of 0
_TEXTS = ("name", "precision", "sha256")
_NUMBERS = ("width", "channels", "size")


class GeneratorRejected(Rejected):
    """Not a file of a generator that can be used; one line that names the file."""


def save(path: str | os.PathLike[str], generator: tf.keras.Model, precision: str = "float32") -> str:
    """The file appears whole or not at all; returns its SHA-256, for `load`.

    Raises `GeneratorRejected` for what no receiver would take.
    """
    path = Path(path)
    if precision not in PRECISIONS:
        raise ValueError(f"precision {precision}: unknown; choose one of {', '.join(PRECISIONS)}")
    architecture = pix2pix.architecture_of(generator)
    arrays: dict[str, np.ndarray] = {}
    weights = weights_of(architecture)
    for variable in generator.weights:
        name = name_of(variable)
        arrays.update(_packed(path, name, variable.numpy(), weights[name].output_axis, precision))
    sha256 = _fingerprint(architecture, precision, arrays)
    contents = io.BytesIO()
    np.savez(
        contents,
        name=npz.as_text(architecture.name),
        precision=npz.as_text(precision),
        sha256=npz.as_text(sha256),
        width=np.array(architecture.width, "<i8"),
        channels=np.array(architecture.channels, "<i8"),
        size=np.array(architecture.size, "<i8"),
        **arrays,
    )
    write(path, contents.getvalue())
    return sha256


def load(
    path: str | os.PathLike[str],
    expected: Architecture | None = None,
    precision: str | None = None,
    sha256: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> tf.keras.Model:
    """The generator of a file of `save`: where given, of this architecture, precision and fingerprint.

    Raises `GeneratorRejected`.
    """
    path = Path(path)
    with npz.opened(path, max_bytes, GeneratorRejected, "preprocessing.pix2pix") as archive:
        missing = [name for name in (*_TEXTS, *_NUMBERS) if f"{name}.npy" not in archive.names]
        if missing:
            raise archive.rejected(f"not a generator: it has no {', '.join(missing)}")
        texts = {name: archive.text(name) for name in _TEXTS}
        for name, text in texts.items():
            if not npz.is_line(text):
                raise archive.rejected(f"{name} is not a short line of text")
        own_precision, sha = texts["precision"], texts["sha256"]
        width, channels = (int(archive.array(name, np.int64, ())) for name in ("width", "channels"))
        size = archive.array("size", np.int64, (2,)).tolist()
        architecture = _architecture(archive, texts["name"], (size[0], size[1]), width, channels)
        if expected is not None and architecture != expected:
            raise archive.rejected(f"another generator: {architecture}; expected {expected}")
        if own_precision not in PRECISIONS or precision not in (None, own_precision):
            choice = precision or " or ".join(PRECISIONS)
            raise archive.rejected(f"its precision is {own_precision!r}, expected {choice}")
        types = _types(architecture, own_precision)
        archive.check_names([*_TEXTS, *_NUMBERS, *types], f"those of a generator {architecture}, {own_precision}")
        arrays = {name: archive.array(name, dtype, shape) for name, (dtype, shape) in types.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise GeneratorRejected(f"{path}: {name} holds values that are not finite")
        if name.endswith(".scale") and (array.min() < 0 or array.max() > np.finfo(np.float32).max / (_STEPS + 1)):
            raise GeneratorRejected(f"{path}: {name} holds values below 0 or too large")
    found = _fingerprint(architecture, own_precision, arrays)
    if found != sha or sha256 not in (None, found):
        wanted = sha if found != sha else sha256 or sha
        raise GeneratorRejected(f"{path}: its SHA-256 is {found[:12]}…, expected {wanted[:12]}…; fetch it again")
    return _built(architecture, arrays)


def _architecture(archive: npz.Archive, name: str, size: tuple[int, int], width: int, channels: int) -> Architecture:
    if not (0 < width <= MAX_WIDTH and all(0 < side <= MAX_SIDE for side in size)):
        raise archive.rejected(
            f"width {width}, size {size}: at most {MAX_WIDTH} and {MAX_SIDE} pixels a side, and above 0, are allowed"
        )
    try:
        return Architecture(name, size, width, channels)
    except ValueError as error:
        raise archive.rejected(str(error)) from None


def _types(architecture: Architecture, precision: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of every array of weights in a file."""
    types = {}
    for name, (shape, axis) in weights_of(architecture).items():
        types[name] = (precision if axis is not None else "float32", shape)
        if axis is not None and precision == "int8":
            types[f"{name}.scale"] = ("float32", (shape[axis],))
    return types


def _packed(path: Path, name: str, value: np.ndarray, axis: int | None, precision: str) -> dict[str, np.ndarray]:
    """A weight as a file has it."""
    if not np.isfinite(value).all():
        raise GeneratorRejected(f"{path}: {name} holds values that are not finite; it is not written")
    if axis is None or precision == "float32":
        return {name: np.ascontiguousarray(value, "<f4")}
    if precision == "float16":
        if np.abs(value).max() > np.finfo(np.float16).max:
            raise GeneratorRejected(f"{path}: {name} holds values too large for float16; choose another precision")
        return {name: np.ascontiguousarray(value, "<f2")}
    numbers, scale = quantised(value, axis)
    return {name: numbers, f"{name}.scale": scale}


def quantised(value: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """int8 of the same shape, and float32 scales along this axis; a filter of zeros has scale 0."""
    others = tuple(other for other in range(value.ndim) if other != axis)
    scale = (np.abs(value).max(axis=others, keepdims=True) / _STEPS).astype("<f4")
    numbers = np.rint(np.divide(value, scale, out=np.zeros_like(value), where=scale > 0))
    return np.clip(numbers, -_STEPS, _STEPS).astype(np.int8), scale.ravel()


def restored(numbers: np.ndarray, scale: np.ndarray, axis: int) -> np.ndarray:
    """float32, what `quantised` was given but for rounding."""
    return numbers * np.expand_dims(scale, tuple(other for other in range(numbers.ndim) if other != axis))


def _built(architecture: Architecture, arrays: Mapping[str, np.ndarray]) -> tf.keras.Model:
    generator = pix2pix.build(architecture)
    weights = weights_of(architecture)
    for variable in generator.weights:
        name = name_of(variable)
        value, axis = arrays[name], weights[name].output_axis
        if axis is not None and value.dtype == np.int8:
            value = restored(value, arrays[f"{name}.scale"], axis)
        variable.assign(value.astype(np.float32))
    return generator


def _fingerprint(architecture: Architecture, precision: str, arrays: Mapping[str, np.ndarray]) -> str:
    known = hashlib.sha256(f"{architecture}, {precision}".encode())
    for name in sorted(arrays):
        array = arrays[name]
        known.update(f"{name} {array.dtype.str} {array.shape}".encode())
        known.update(np.ascontiguousarray(array).tobytes())
    return known.hexdigest()
