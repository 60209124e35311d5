"""Folders to run a command on."""

from __future__ import annotations

from pathlib import Path


def write_files(folder: Path, contents: dict[str, bytes]) -> Path:
    """The folder, with these files in it."""
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
