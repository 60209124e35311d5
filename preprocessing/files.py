"""Which files a folder holds: listed, read, written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from preprocessing import budget
from preprocessing.errors import Rejected, UserError
from preprocessing.suffixes import PLAIN, SUFFIXES
from preprocessing.whole_files import replacing


def list_files(source: Path, target: Path) -> list[Path]:
    """Every file below IN, as a path relative to it, sorted. Links to folders are followed."""
    if not source.is_dir():
        what = "is not a folder" if source.exists() else "does not exist"
        raise UserError(f"{source}: {what}; give the folder that holds the images")
    first, second = source.resolve(), target.resolve()
    if first == second or first in second.parents or second in first.parents:
        raise UserError(f"{target}: neither of IN and OUT may lie inside the other; choose another OUT")
    if os.path.lexists(target) and not target.is_dir():
        raise UserError(f"{target}: is there and is not a folder; choose another OUT")

    def stop(error: OSError) -> None:
        raise UserError(f"{error.filename}: cannot be listed: {error.strerror}")

    files = []
    for folder, folders, names in os.walk(source, onerror=stop, followlinks=True):
        here = Path(folder)
        files += [(here / name).relative_to(source) for name in names]
        # A link back to a folder on the way here would lead round in a circle.
        inside = {path.resolve() for path in (here, *here.parents)}
        folders[:] = [name for name in folders if (here / name).resolve() not in inside]
    if not any(is_named_image(file) for file in files):
        raise UserError(f"{source}: no images in it or its sub-folders; looked for {' '.join(SUFFIXES)}")
    return sorted(files)


def is_named_image(path: Path) -> bool:
    """Whether a file's name ends like an image's."""
    return path.name.lower().endswith(SUFFIXES)


def as_png(name: Path) -> Path:
    return name if name.suffix.lower() == ".png" else name.with_name(name.name + ".png")


def check_distinct(results: Iterable[tuple[Path, Path]]) -> None:
    """No (source, result) may take another's place, such as that of x.jpg the one of x.jpg.png."""
    seen: dict[Path, Path] = {}
    for source, result in results:
        if result in seen:
            raise UserError(f"{seen[result]} and {source} would both become {result}; rename one")
        seen[result] = source


def make_writable(target: Path) -> None:
    probe = target / f".{os.getpid()}.tmp"
    try:
        target.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror}; choose another OUT") from None


def read_image(path: Path) -> bytes:
    """A PNG, JPEG or BMP file's bytes, not looked at; of other formats those of a PNG. Raises `Rejected`."""
    if not is_named_image(path):
        raise Rejected(f"not an image: its name ends in {path.suffix or 'nothing'!r}")
    try:
        budget.check_bytes(path.stat().st_size)
        contents = path.read_bytes()
    except OSError as error:
        raise Rejected(f"cannot be opened: {error.strerror}") from None
    if not contents or path.suffix.lower() in PLAIN:
        return contents
    from preprocessing import formats

    return formats.to_png(contents)


def write(path: Path, contents: bytes) -> None:
    with replacing(path, "wb") as file:
        file.write(contents)
