"""Arrays of a file taken by name, checked before any is read, and brought into Keras's order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from models.stored import Stored, WeightsError, shown

_FLOATS = ("float16", "bfloat16", "float32", "float64")
Shape = tuple[int, ...]


def take(
    path: Path,
    network: str,
    state: Mapping[str, Stored],
    wanted: Sequence[tuple[str, Shape]],
    *,
    torch_order: bool,
    optional: Collection[str] = (),
) -> list[np.ndarray]:
    """The arrays of these names and (Keras) shapes, float32. Nothing else may be there but what is `optional`.

    With `torch_order` kernels are (out, in, height, width) and matrices (out, in); otherwise (height, width, in, out)
    and (in, out).
    """
    if unknown := set(state) - {key for key, _ in wanted} - set(optional):
        raise WeightsError(f"{path}: not the weights of {network}; it has no {shown(min(unknown))}")
    for key, shape in wanted:
        if key not in state:
            raise WeightsError(f"{path}: not the weights of {network}; {key} is missing")
        found = keras_shape(state[key].shape, torch_order)
        if found != shape:
            raise WeightsError(f"{path}: not the weights of {network}; {key} is {found}, {shape} is expected")
        if state[key].dtype not in _FLOATS:
            raise WeightsError(
                f"{path}: {key} holds {state[key].dtype}, no weights; expected float32, float16 or bfloat16"
            )
    return [_read(state[key], torch_order) for key, _ in wanted]


def keras_shape(shape: Shape, torch_order: bool) -> Shape:
    return (*shape[2:], *shape[1::-1]) if torch_order and len(shape) > 1 else shape


def _read(stored: Stored, torch_order: bool) -> np.ndarray:
    array = stored.read()
    if torch_order and array.ndim > 1:
        array = array.transpose(*range(2, array.ndim), 1, 0)
    with np.errstate(over="ignore"):  # infinite then, which `check_finite` refuses
        return np.ascontiguousarray(array, np.float32)


def check_finite(path: Path, arrays: Sequence[np.ndarray]) -> None:
    for array in arrays:
        with np.errstate(over="ignore"):  # what float32 cannot hold is as bad
            if (
                not np.issubdtype(array.dtype, np.floating)
                or not np.isfinite(array.astype(np.float32, copy=False)).all()
            ):
                raise WeightsError(f"{path}: holds values that are not finite numbers; fetch or train it again")
