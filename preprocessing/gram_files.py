"""Gram matrices as a file between clients: an `.npz` without pickle, checked by whoever receives it.

    relu1_1 … relu5_1   float32 (n, c, c), for n images of one class
    positions           int64 (5,): places of each layer, M of Eq. 5
    width               int64: filters of the VGG's first block
    mean4_1             float32 (n, c): means of relu4_1 over its places; only where images are made in one pass
    label, weights, sha256   text: the class, what the VGG's weights are called, `gram.fingerprint` of the VGG

A received file is a stranger's: see `preprocessing.npz`.
"""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from preprocessing import npz
from preprocessing.errors import Rejected
from preprocessing.files import write
from preprocessing.style_settings import LAYERS

MULTIPLES = (1, 2, 4, 8, 8)  # channels of LAYERS, in multiples of the width
MAX_BYTES = 2**30  # of a whole file, unpacked: 440 images at width 64
_TOLERANCE = 1e-4  # of the largest value, for what rounding does to symmetry
_TEXTS = ("label", "weights", "sha256")
_MEANS = "mean4_1"
_OF_MEANS = LAYERS.index("relu4_1")
_NAMES = (*LAYERS, "positions", "width", *_TEXTS)


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
    means: np.ndarray | None = None  # float32 (n, c) of relu4_1

    def __len__(self) -> int:
        return len(self.matrices[0])


def save(path: str | os.PathLike[str], grams: Grams) -> None:
    """The file appears whole or not at all. Raises `GramsRejected` for what no receiver would take."""
    path = Path(path)
    _check_values(path, grams)
    contents = io.BytesIO()
    means = {} if grams.means is None else {_MEANS: np.ascontiguousarray(grams.means, "<f4")}
    np.savez(
        contents,
        **means,
        **{name: np.ascontiguousarray(matrix, "<f4") for name, matrix in zip(LAYERS, grams.matrices)},
        positions=np.array(grams.positions, "<i8"),
        width=np.array(grams.width, "<i8"),
        **{name: npz.as_text(getattr(grams, name)) for name in _TEXTS},
    )
    write(path, contents.getvalue())


def load(path: str | os.PathLike[str], width: int, sha256: str | None = None, max_bytes: int = MAX_BYTES) -> Grams:
    """A file of `save`, for a VGG of this width and, where given, fingerprint. Raises `GramsRejected`."""
    path = Path(path)
    with npz.opened(path, max_bytes, GramsRejected, "preprocessing.gram") as archive:
        with_means = f"{_MEANS}.npy" in archive.names
        archive.check_names((*_NAMES, _MEANS) if with_means else _NAMES)
        label, weights, sha = (archive.text(name) for name in _TEXTS)
        own_width = int(archive.array("width", np.int64, ()))
        positions = tuple(archive.array("positions", np.int64, (len(LAYERS),)).tolist())
        matrices = [archive.array(name, np.float32, (None, None, None), "float32 (n, c, c)") for name in LAYERS]
        means = archive.array(_MEANS, np.float32, (None, None), "float32 (n, c)") if with_means else None
    if own_width != width:
        raise GramsRejected(f"{path}: another VGG: its width is {own_width}, here it is {width}")
    if sha256 is not None and sha != sha256:
        raise GramsRejected(
            f"{path}: another VGG: its weights are {weights!r}, {sha[:12]}…, here they are {sha256[:12]}…"
        )
    grams = Grams(matrices, positions, label, width, weights, sha, means)
    _check_values(path, grams)
    return grams


def _check_values(path: Path, grams: Grams) -> None:
    if len(grams.matrices) != len(LAYERS) or len(grams.positions) != len(LAYERS):
        raise GramsRejected(f"{path}: {len(grams.matrices)} layers, expected {len(LAYERS)}")
    if min(grams.positions) < 1:
        raise GramsRejected(f"{path}: positions are {grams.positions}, all must be above 0")
    for name in _TEXTS:
        if not npz.is_line(getattr(grams, name)):
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
    if grams.means is not None:
        _check_means(path, grams, grams.means)


def _check_means(path: Path, grams: Grams, means: np.ndarray) -> None:
    """That these can be means of the activations whose squares the Gram matrices have."""
    squares = np.diagonal(grams.matrices[_OF_MEANS], axis1=1, axis2=2) / grams.positions[_OF_MEANS]
    if means.dtype != np.float32 or means.shape != squares.shape:
        raise GramsRejected(f"{path}: {_MEANS} is {means.dtype} {means.shape}, expected float32 {squares.shape}")
    largest = np.sqrt(squares) + _TOLERANCE * np.sqrt(squares.max(axis=1, keepdims=True))
    if not (np.isfinite(means) & (means >= 0) & (means <= largest)).all():
        raise GramsRejected(f"{path}: {_MEANS} is negative or larger than its Gram matrices allow")


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
