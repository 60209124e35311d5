"""An .npz as NumPy writes it, compressed or not: headers are judged first, arrays are read when they are asked for."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from models.stored import Stored, WeightsError, check_total, count, shown


def is_npz(archive: zipfile.ZipFile) -> bool:
    names = archive.namelist()
    return bool(names) and all(name.endswith(".npy") for name in names)


def read(path: Path, archive: zipfile.ZipFile) -> dict[str, Stored]:
    """The arrays by name, to be read as long as the archive is open. Pickled objects are refused."""
    members = archive.infolist()
    if len({member.filename for member in members}) != len(members):
        raise WeightsError(f"{path}: two of its arrays have one name; fetch it again")
    check_total(path, sum(member.file_size for member in members))
    return {member.filename[: -len(".npy")]: _stored(path, archive, member) for member in members}


def _stored(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Stored:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"{shown(member.filename)} is of version {version} of NumPy's format")
        header = stream.tell()
    if dtype.hasobject:
        raise WeightsError(
            f"{path}: {shown(member.filename)} holds pickled objects, which are not read; fetch it again"
        )
    # NumPy would set memory aside for any shape the header claims.
    if min(shape, default=0) < 0 or count(shape) * dtype.itemsize != member.file_size - header:
        raise WeightsError(f"{path}: {shown(member.filename)} claims the shape {shape}, which is not what it holds")

    def array() -> np.ndarray:
        with archive.open(member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)

    return Stored(tuple(shape), dtype.name, array)
