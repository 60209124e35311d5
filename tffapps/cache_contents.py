"""What lies below the cache folder, and removing it: by unit, never through a symbolic link.

A unit is what is removed together: a file, or a folder whose files belong together (the activations of one base, a
generator). Files of a kind lie beside each other in folders of two hexadecimal digits.

    <cache>/aligned/3f/a2/3fa2….png            the unit is the file
    <cache>/features/<network>-<key>/…         the unit is the folder
    <cache>/generators/<client>-<key>/…        the unit is the folder
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tffapps.cache_lock import FILE as LOCK

FEATURES, ABOUT = "features", "about.json"  # see `tffapps.data.features`
KINDS = {
    "aligned": "images in another client's stains or look",
    "cloaked": "cloaked pictures",
    "converted": "DICOM, TIFF and NIfTI files as PNG",
    "copies": "rare images, turned or in other colours",
    "edges": "maps of edges, by which near-duplicates are found",
    FEATURES: "what frozen networks make of images",
    "generators": "generators, trained and exchanged",
    "grams": "styles that were exchanged",
    "knees": "knees, cut out and contrasted",
    "looks": "whose look painted images have",
    "painted": "images that generators painted",
    "patched": "images with the patch of a backdoor",
    "preparations": "knees prepared in several ways, and their features",
    "ruined": "ruined images of the poisoning study",
    "stains": "measured stains",
    "styled": "images in another client's style",
    "tiles": "tiles of micrographs, and their masks",
    "untrained": "scores of micrographs that no network is needed for",
}

_SHARD = re.compile(r"[0-9a-f]{2}")

Unit = tuple[str, ...]  # its path below the cache folder


@dataclasses.dataclass
class Size:
    """Of one unit or many."""

    files: int = 0
    bytes: int = 0
    used: float = 0.0  # when one of them was last used, as far as the file system knows; seconds since 1970

    def add(self, other: Size) -> None:
        self.files += other.files
        self.bytes += other.bytes
        self.used = max(self.used, other.used)


@dataclasses.dataclass
class Removed:
    files: int = 0
    bytes: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _File:
    parts: Unit
    status: os.stat_result
    folder: int  # its descriptor: a folder that is put in the place of this one meanwhile is not touched

    @property
    def unit(self) -> Unit:
        alone = len(self.parts) <= 2 or _SHARD.fullmatch(self.parts[1])
        return self.parts if alone else self.parts[:2]

    @property
    def used(self) -> float:
        """Features are touched when they are used, and listing them reads a file of theirs."""
        if self.parts[0] == FEATURES:
            return self.status.st_mtime
        return max(self.status.st_mtime, self.status.st_atime)


def found(root: Path) -> dict[Unit, Size]:
    """Every unit below the folder; links, and what they lead to, are none."""
    units: dict[Unit, Size] = {}
    for file in _walk(root):
        units.setdefault(file.unit, Size()).add(Size(1, file.status.st_size, file.used))
    return units


def links(root: Path) -> list[str]:
    """Kinds that are symbolic links."""
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if entry.is_symlink())
    return []


def about(root: Path, unit: Unit) -> dict[str, Any] | None:
    """What a folder of features says of itself; None for another unit. Anybody may have edited it."""
    if len(unit) != 2 or unit[0] != FEATURES or not root.joinpath(*unit).is_dir():
        return None
    try:
        content = json.loads((root.joinpath(*unit) / ABOUT).read_text())
    except (OSError, ValueError, RecursionError):
        content = {}
    return content if isinstance(content, dict) else {}


def remove(root: Path, units: Collection[Unit]) -> Removed:
    """Removes these units, and folders that are empty then."""
    removed = Removed()
    for file in _walk(root, tidy=True):
        if file.unit not in units:
            continue
        try:
            os.unlink(file.parts[-1], dir_fd=file.folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            removed.problems.append(f"{root.joinpath(*file.parts)}: {error.strerror}")
            continue
        removed.files += 1
        removed.bytes += file.status.st_size
    return removed


def _walk(root: Path, tidy: bool = False) -> Iterator[_File]:
    """Every file but links and the lock, those of the deepest folders first; with `tidy` empty folders are removed."""
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        # The folder itself may be a link: it is where the user wants the cache. None below it is followed.
        for folder, folders, names, inside in os.fwalk(".", topdown=False, dir_fd=descriptor):
            above = Path(folder).parts
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(name, dir_fd=inside, follow_symlinks=False)
                    if not stat.S_ISLNK(status.st_mode) and (*above, name) != (LOCK,):
                        yield _File((*above, name), status, inside)
            for name in folders if tidy else ():
                with contextlib.suppress(OSError):  # not empty, or a link
                    os.rmdir(name, dir_fd=inside)
    finally:
        os.close(descriptor)
