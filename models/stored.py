"""What the readers of weight files share: arrays that are described but not yet read, limits, and the error.

A file from elsewhere is judged by what it says of itself before memory is set aside for any of it.
"""

from __future__ import annotations

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

MAX_BYTES = 2**30  # of a file's arrays together; VGG-19 with its three dense layers has 0.55 GiB
MAX_DIMENSIONS = 8
_SHOWN = 120  # characters of a text that comes from a file
# What a damaged file makes h5py, zipfile, NumPy and pickletools raise.
DAMAGE = (
    OSError,
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    OverflowError,
    RuntimeError,  # RecursionError is one
    EOFError,
    NotImplementedError,
    SyntaxError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,  # NumPy looks a second time at a header that it cannot parse
)


class WeightsError(ValueError):
    """Weights that cannot be used; the message is one line that names the file and the way out."""


class Stored(NamedTuple):
    """An array of a file. `read` gives it as floating-point numbers; only then is memory set aside."""

    shape: tuple[int, ...]
    dtype: str  # as NumPy calls it, or "bfloat16"
    read: Callable[[], np.ndarray]


def shown(text: object) -> str:
    """A text from a file, fit for a line of a message."""
    line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def is_shape(sides: object) -> bool:
    """Whether these are the sides of an array that could be held: whole numbers, not too many, none negative."""
    if not isinstance(sides, (tuple, list)) or len(sides) > MAX_DIMENSIONS:
        return False
    return all(type(side) is int and 0 <= side <= MAX_BYTES for side in sides)


def check_total(path: Path, size: int) -> None:
    if size > MAX_BYTES:
        raise WeightsError(
            f"{path}: claims {size} bytes of arrays, at most {MAX_BYTES} are read; it is no file of these weights"
        )


def count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def unreadable(path: Path, error: BaseException) -> WeightsError:
    reason = shown(str(error).splitlines()[0]) if str(error) else type(error).__name__
    return WeightsError(f"{path}: cannot be read as weights ({reason}); fetch it again")
