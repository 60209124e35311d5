"""Stand-ins: drawn images in a real dataset's layout, for runs without the data.

A stand-in says so in a marker file. A folder without that marker is someone's data and is never written to.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from tffapps.errors import UserError
from tffapps.progress import track

MARKER = ".stand-in.json"


@dataclasses.dataclass(frozen=True)
class Item:
    """One image to draw."""

    path: str  # below the folder; its suffix chooses the format
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)  # what `draw` needs to know
    stream: int | None = None  # items of one stream see the same random numbers: an image and its mask


Draw = Callable[[np.random.Generator, Item], np.ndarray]  # -> uint8 (height, width) or (height, width, 3) RGB


def write(
    folder: Path,
    items: Sequence[Item],
    draw: Draw,
    seed: int,
    name: str,
    *,
    parameters: dict[str, Any] | None = None,
    progress: bool = True,
) -> Path:
    """Draws all items into `folder`, or finds that this was done before; returns the folder.

    An item's random numbers depend on the seed and its position alone: `draw` may run in any order.
    """
    folder = Path(os.path.abspath(folder))
    marker = {
        "name": name,
        "seed": seed,
        "parameters": json.loads(json.dumps(parameters or {})),  # as it will be read back
        "images": len(items),
        "items": hashlib.sha256(repr([dataclasses.astuple(item) for item in items]).encode()).hexdigest()[:16],
    }
    if _is_there(folder, marker, items):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        _draw_all(unfinished, items, draw, seed, name, progress)
        (unfinished / MARKER).write_text(json.dumps(marker, indent=1) + "\n")
        unfinished.chmod(0o755)  # mkdtemp keeps other users out
        try:
            unfinished.rename(folder)
        except OSError:
            # Someone else was first: their folder is as good if it is the same.
            if not _is_there(folder, marker, items):
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def is_standin(folder: Path) -> bool:
    """Whether the images in a folder were drawn here."""
    return (Path(folder) / MARKER).is_file()


def _draw_all(folder: Path, items: Sequence[Item], draw: Draw, seed: int, name: str, progress: bool) -> None:
    def one(index: int) -> None:
        item = items[index]
        image = draw(np.random.default_rng([seed, index if item.stream is None else item.stream]), item)
        if image.dtype != np.uint8 or image.ndim not in (2, 3):
            raise TypeError(f"{item.path}: drawn as {image.dtype} {image.shape}, expected a uint8 image")
        stored = cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if image.ndim == 3 else image
        _, contents = cv2.imencode(Path(item.path).suffix, stored)
        file = folder / item.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents.tobytes())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        drawn = pool.map(one, range(len(items)))
        for _ in track(drawn, len(items), f"drawing {name}", progress):
            pass


def _is_there(folder: Path, marker: dict[str, Any], items: Sequence[Item]) -> bool:
    """Whether this very stand-in is in the folder; anything else in it is an error."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    way_out = "choose another folder, or remove this one if nothing in it is needed"
    if not is_standin(folder):
        raise UserError(f"{folder}: holds files that are no stand-in, which are not overwritten; {way_out}")
    try:
        found = json.loads((folder / MARKER).read_text())
    except ValueError:
        raise UserError(f"{folder / MARKER}: cannot be understood; {way_out}") from None
    if found != marker:
        differs = ", ".join(key for key in marker if not isinstance(found, dict) or found.get(key) != marker[key])
        raise UserError(f"{folder}: holds another stand-in (different {differs}); {way_out}")
    gone = [item.path for item in items if not (folder / item.path).is_file()]
    if gone:
        raise UserError(f"{folder}: {len(gone)} images of the stand-in are gone, such as {gone[0]}; {way_out}")
    return True
