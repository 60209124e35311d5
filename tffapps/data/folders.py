"""Folders of images as a manifest: `<client>/<split>/<class>/*`, `<split>/<class>/*` or `<class>/*`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from preprocessing.formats import is_image
from preprocessing.suffixes import SUFFIXES
from tffapps.data.manifest import COLUMNS, ONLY_CLIENT, SPLITS, natural_key
from tffapps.errors import UserError

_EXPECTED = "lay the images out as <client>/<split>/<class>/*.png (split: train, val or test)"
_DEEPEST = 3


def from_folders(root: Path) -> pd.DataFrame:
    """The manifest of a folder; the depth of the images says which of the three layouts it is."""
    root = Path(os.path.abspath(root))
    if not root.is_dir():
        raise UserError(f"{root}: no such folder; {_EXPECTED}")
    images, others = [], 0
    for file in _files(root):
        if is_image(file):
            images.append(file)
        else:
            others += 1
    if not images:
        note = f" ({others} files of other types)" if others else ""
        raise UserError(f"{root}: no images ({', '.join(SUFFIXES)}) in it{note}; {_EXPECTED}")
    images.sort(key=lambda file: natural_key(file.relative_to(root).as_posix()))
    depth = _depth(root, images)
    rows = [_row(root, file, depth) for file in images]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _files(root: Path) -> Iterator[Path]:
    """Every visible file. Links are followed, which may go in circles, so the search has a bottom."""
    for folder, names, files in os.walk(root, followlinks=True):
        depth = len(Path(folder).relative_to(root).parts)
        names[:] = [name for name in names if not name.startswith(".")] if depth <= _DEEPEST else []
        yield from (Path(folder, name) for name in files if not name.startswith("."))


def _depth(root: Path, images: list[Path]) -> int:
    """How many folders lie between the root and every image."""
    first: dict[int, Path] = {}
    for file in images:
        first.setdefault(len(file.relative_to(root).parts) - 1, file)
    if len(first) > 1:
        shallow, deep = first[min(first)], first[max(first)]
        raise UserError(f"{root}: images at different depths, such as {shallow} and {deep}; {_EXPECTED}")
    depth = next(iter(first))
    if not 1 <= depth <= _DEEPEST:
        raise UserError(f"{root}: images {depth} folders deep, such as {first[depth]}; {_EXPECTED}")
    return depth


def _row(root: Path, file: Path, depth: int) -> tuple[str, str, str, str]:
    folders = file.relative_to(root).parts[:-1]
    label = folders[-1]
    client = folders[0] if depth == _DEEPEST else ONLY_CLIENT
    split = folders[-2] if depth > 1 else "train"
    if depth > 1 and split not in SPLITS:
        wrong = root.joinpath(*folders[:-1])
        raise UserError(f"{wrong}: a split must be called train, val or test; rename it, or {_EXPECTED}")
    if depth == 1 and label in SPLITS:
        raise UserError(f"{file.parent}: images without a class folder; move them to {label}/<class>/")
    return str(file), label, client, split
