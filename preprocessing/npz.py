"""An `.npz` without pickle from a stranger: what it claims is judged before anything is made of it.

No more of a file is read than its directory may claim, no array is made before its header says what is expected, and
nothing in it is ever executed.
"""

from __future__ import annotations

import contextlib
import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from preprocessing.errors import Rejected

TEXT_LENGTH = 200
DAMAGE = (  # what NumPy and zipfile raise for a file that is not what it should be
    KeyError,
    ValueError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    SyntaxError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,  # NumPy looks a second time at a header that it cannot parse
)


class Archive:
    """An open file. What is wrong with it is raised as the kind of `Rejected` it was opened with."""

    def __init__(self, path: Path, file: zipfile.ZipFile, kind: type[Rejected]) -> None:
        self._path, self._file, self._kind = path, file, kind
        self.names = [member.filename for member in file.infolist()]  # of files, each "<array>.npy"

    def rejected(self, reason: str) -> Rejected:
        return self._kind(f"{self._path}: {reason}")

    def check_names(self, names: Sequence[str], shown: str = "") -> None:
        """That it holds these arrays, each once, and nothing else; `shown` may say it in short."""
        if sorted(self.names) != sorted(f"{name}.npy" for name in names):
            found = _short(", ".join(map(repr, self.names)) or "nothing")
            raise self.rejected(f"wrong names: {found}; expected {shown or ', '.join(names)}")

    def array(self, name: str, dtype: type | str, shape: tuple[int | None, ...], said: str = "") -> np.ndarray:
        """Of this type and shape; a side that is None is for the caller to judge, and `said` tells what it must be."""
        return self._array(name, np.dtype(dtype), shape, said or f"{np.dtype(dtype)} {shape}")

    def text(self, name: str) -> str:
        """A short one."""
        return str(self._array(name, None, (), "a short text"))

    def _array(self, name: str, wanted: np.dtype | None, sides: tuple[int | None, ...], said: str) -> np.ndarray:
        """The header is judged first: NumPy would set memory aside for any shape it claims. `wanted` None is text."""
        data = self._file.read(f"{name}.npy")
        stream = io.BytesIO(data)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} is of another version of NumPy's format")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        good = dtype.kind == "U" and dtype.itemsize <= 4 * TEXT_LENGTH if wanted is None else dtype == wanted
        fits = len(shape) == len(sides) and all(side in (None, found) for side, found in zip(sides, shape))
        if not good or not fits:
            kind = "pickled objects" if dtype.hasobject else dtype
            raise self.rejected(f"{name} is {kind} {shape}, expected {said}")
        if min(shape, default=1) < 1 or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
            raise self.rejected(f"{name} claims the shape {shape}, which is not what it holds")
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)


@contextlib.contextmanager
def opened(
    path: Path, max_bytes: int, kind: type[Rejected], source: str, contents: bytes | None = None
) -> Iterator[Archive]:
    """The file, if it claims to be no larger than this when unpacked; `source` is the module that writes such files.

    With `contents`, what was read of it already.
    """
    try:
        with zipfile.ZipFile(path if contents is None else io.BytesIO(contents)) as file:
            size = sum(member.file_size for member in file.infolist())
            if size > max_bytes:
                raise kind(f"{path}: too large: {size} bytes unpacked, at most {max_bytes} are allowed")
            yield Archive(path, file, kind)
    except FileNotFoundError:
        raise kind(f"{path}: no such file; give one written by {source}") from None
    except DAMAGE as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise kind(f"{path}: damaged, or not an .npz: {_short(reason)}; fetch it again") from None


def plain_arrays(contents: bytes) -> dict[str, np.ndarray]:
    """All arrays of what `np.savez` wrote, whatever they are called: nothing in it is packed, so nothing can swell.

    One of `DAMAGE` if it is none.
    """
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(contents)) as file:
        members = file.infolist()
        if sum(member.file_size for member in members) > len(contents):
            raise ValueError("it claims to hold more than there is")
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
                raise ValueError(f"{member.filename!r:.80} is packed, or no array")
            data = file.read(member)
            stream = io.BytesIO(data)
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError("another version of NumPy's format")
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            start = stream.tell()
            if dtype.kind not in "biufU" or math.prod(shape) * dtype.itemsize != len(data) - start:
                raise ValueError(f"{member.filename!r:.80} is not the array that it claims to be")
            flat = np.frombuffer(bytearray(data), dtype, offset=start)
            arrays[member.filename[: -len(".npy")]] = flat.reshape(shape, order="F" if fortran else "C")
    return arrays


def as_text(text: str) -> np.ndarray:
    """What `Archive.text` reads."""
    return np.array(text, f"<U{max(1, len(text))}")


def is_line(text: str) -> bool:
    return len(text) <= TEXT_LENGTH and text.isprintable()


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH else f"{text[:TEXT_LENGTH]}…"
