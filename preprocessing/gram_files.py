"""Gram matrices as a file between clients: an `.npz` without pickle, checked by whoever receives it.

    relu1_1 … relu5_1   float32 (n, c, c), for n images of one class
    positions           int64 (5,): places of each layer, M of Eq. 5
    width               int64: filters of the VGG's first block
    label, weights, sha256   text: the class, what the VGG's weights are called, `gram.fingerprint` of the VGG

A received file is a stranger's. No more of it is read than its directory may claim, no array is made before its header
says what is expected, and nothing in it is ever executed.
"""

from __future__ import annotations

import dataclasses
import io
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from preprocessing.files import Rejected, write
from preprocessing.style_settings import LAYERS

MULTIPLES = (1, 2, 4, 8, 8)  # channels of LAYERS, in multiples of the width
MAX_BYTES = 2**30  # of a whole file, unpacked: 440 images at width 64
_TOLERANCE = 1e-4  # of the largest value, for what rounding does to symmetry
_TEXTS = ("label", "weights", "sha256")
_NAMES = (*LAYERS, "positions", "width", *_TEXTS)
_TEXT_LENGTH = 200
_DAMAGE = (
    ValueError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    SyntaxError,
    zipfile.BadZipFile,
    zlib.error,
)


class GramsRejected(Rejected):
    """Not a file of Gram matrices that can be used; one line that names the file."""


@dataclasses.dataclass(frozen=True)
class Grams:
    matrices: Sequence[np.ndarray]  # float32 (n, c, c) for each of LAYERS
    positions: tuple[int, ...]  # places of each layer
    label: str  # the class
    width: int  # of the VGG
    weights: str  # what its weights are called: "random", "imagenet", "file:…"
    sha256: str  # of the VGG

    def __len__(self) -> int:
        return len(self.matrices[0])


def save(path: str | os.PathLike[str], grams: Grams) -> None:
    """The file appears whole or not at all. Raises `GramsRejected` for what no receiver would take."""
    path = Path(path)
    _check_values(path, grams)
    contents = io.BytesIO()
    np.savez(
        contents,
        **{name: np.ascontiguousarray(matrix, "<f4") for name, matrix in zip(LAYERS, grams.matrices)},
        positions=np.array(grams.positions, "<i8"),
        width=np.array(grams.width, "<i8"),
        **{name: np.array(getattr(grams, name), f"<U{max(1, len(getattr(grams, name)))}") for name in _TEXTS},
    )
    write(path, contents.getvalue())


def load(path: str | os.PathLike[str], width: int, sha256: str | None = None, max_bytes: int = MAX_BYTES) -> Grams:
    """A file of `save`, for a VGG of this width and, where given, fingerprint. Raises `GramsRejected`."""
    path = Path(path)
    arrays = _read(path, max_bytes)
    label, weights, sha = (str(arrays[name]) for name in _TEXTS)
    if int(arrays["width"]) != width:
        raise GramsRejected(f"{path}: another VGG: its width is {int(arrays['width'])}, here it is {width}")
    if sha256 is not None and sha != sha256:
        raise GramsRejected(
            f"{path}: another VGG: its weights are {weights!r}, {sha[:12]}…, here they are {sha256[:12]}…"
        )
    positions = tuple(int(number) for number in arrays["positions"])
    grams = Grams([arrays[name] for name in LAYERS], positions, label, width, weights, sha)
    _check_values(path, grams)
    return grams


def _read(path: Path, max_bytes: int) -> dict[str, np.ndarray]:
    """All arrays, of the types they must have."""
    try:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            size = sum(member.file_size for member in members)
            if size > max_bytes:
                raise GramsRejected(f"{path}: too large: {size} bytes unpacked, at most {max_bytes} are allowed")
            found = [member.filename for member in members]
            if sorted(found) != sorted(f"{name}.npy" for name in _NAMES):
                raise GramsRejected(f"{path}: wrong names: {_shown(found)}; expected {', '.join(_NAMES)}")
            return {name: _array(path, name, file.read(f"{name}.npy")) for name in _NAMES}
    except FileNotFoundError:
        raise GramsRejected(f"{path}: no such file; give one written by preprocessing.gram") from None
    except _DAMAGE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise GramsRejected(f"{path}: damaged, or not an .npz: {reason[:_TEXT_LENGTH]}; fetch it again") from None


def _array(path: Path, name: str, data: bytes) -> np.ndarray:
    """One member, its header judged first: NumPy would set memory aside for any shape a header claims."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError(f"{name} is of another version of NumPy's format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    if name in LAYERS:
        good, wanted = dtype == np.float32 and len(shape) == 3, "float32 (n, c, c)"
    elif name in _TEXTS:
        good, wanted = dtype.kind == "U" and shape == () and dtype.itemsize <= 4 * _TEXT_LENGTH, "a short text"
    else:
        wanted_shape = (len(LAYERS),) if name == "positions" else ()
        good, wanted = dtype == np.int64 and shape == wanted_shape, f"int64 {wanted_shape}"
    if not good:
        kind = "pickled objects" if dtype.hasobject else dtype
        raise GramsRejected(f"{path}: {name} is {kind} {shape}, expected {wanted}")
    count = 1
    for side in shape:
        count *= side
    if min(shape, default=1) < 1 or count * dtype.itemsize != len(data) - stream.tell():
        raise GramsRejected(f"{path}: {name} claims the shape {shape}, which is not what it holds")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _check_values(path: Path, grams: Grams) -> None:
    if len(grams.matrices) != len(LAYERS) or len(grams.positions) != len(LAYERS):
        raise GramsRejected(f"{path}: {len(grams.matrices)} layers, expected {len(LAYERS)}")
    if min(grams.positions) < 1:
        raise GramsRejected(f"{path}: positions are {grams.positions}, all must be above 0")
    for name in _TEXTS:
        text = getattr(grams, name)
        if len(text) > _TEXT_LENGTH or not text.isprintable():
            raise GramsRejected(f"{path}: {name} is not a short line of text")
    if not grams.label or grams.label.startswith(".") or set(grams.label) & set("/\\:"):
        raise GramsRejected(f"{path}: label {grams.label!r} cannot be part of a file's name")
    for name, multiple, matrix in zip(LAYERS, MULTIPLES, grams.matrices):
        expected = (len(grams), multiple * grams.width, multiple * grams.width)
        if matrix.dtype != np.float32 or matrix.shape != expected or not len(matrix):
            raise GramsRejected(f"{path}: {name} is {matrix.dtype} {matrix.shape}, expected float32 {expected}")
        reason = _not_gram(matrix)
        if reason:
            raise GramsRejected(f"{path}: {name} {reason}")


def _not_gram(matrix: np.ndarray) -> str:
    """Why (n, c, c) cannot be F Fᵀ, "" if it can. A channel that is never active has zeros."""
    if not np.isfinite(matrix).all():
        return "holds values that are not finite"
    diagonal = np.diagonal(matrix, axis1=1, axis2=2)
    if (diagonal < 0).any() or not (diagonal.max(axis=1) > 0).all():
        return "is not F Fᵀ: its diagonal must be positive, or zero where a channel is never active"
    slack = _TOLERANCE * diagonal.max(axis=1)[:, None, None]
    if (np.abs(matrix - matrix.transpose(0, 2, 1)) > slack).any():
        return "is not symmetric"
    roots = np.sqrt(diagonal)
    if (np.abs(matrix) > roots[:, :, None] * roots[:, None, :] + slack).any():
        return "is not F Fᵀ: an entry is larger than its channels' own allow"
    return ""


def _shown(names: Sequence[str]) -> str:
    text = ", ".join(repr(name) for name in names) or "nothing"
    return text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}…"
