"""Arrays of a bundle, each file an `.npz` without pickle: float32, finite, of the names and shapes expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from preprocessing import npz
from preprocessing.errors import Rejected
from tffapps.errors import UserError
from tffapps.files import replacing
from tffapps.use.folder import MAX_BYTES, Folder

Shape = Sequence[int | None]  # a side that is None may be any


def read(folder: Folder, name: str, shapes: Mapping[str, Shape]) -> dict[str, np.ndarray]:
    """What must be in a file, and nothing else; a UserError tells what is wrong with it."""
    path = folder.path / name
    try:
        with npz.opened(path, MAX_BYTES, Rejected, "tffapps", folder.read(name)) as archive:
            archive.check_names(list(shapes), shown=f"the {len(shapes)} arrays of this bundle's network")
            found = {each: archive.array(each, np.float32, tuple(shape)) for each, shape in shapes.items()}
    except Rejected as rejected:
        raise UserError(str(rejected)) from None
    for each, array in found.items():
        if not np.isfinite(array).all():
            raise UserError(f"{path}: {each} holds values that are not finite; fetch the bundle again")
    return found


def write(path: Path, values: Mapping[str, np.ndarray]) -> None:
    """What `read` reads. Never values that are not finite: a UserError."""
    for name, value in values.items():
        if not np.isfinite(value).all():
            raise UserError(f"{path}: {name} would hold values that are not finite: the model has diverged")
    with replacing(path, "wb") as file:
        np.savez(file, **{name: np.asarray(value, "<f4", order="C") for name, value in values.items()})  # type: ignore[arg-type]


def refused(folder: Folder, name: str, expected: str) -> UserError:
    return UserError(f"{folder.path / name}: expected that it {expected}; fetch the bundle again")
