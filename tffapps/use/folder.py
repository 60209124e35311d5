"""A bundle's folder: plain files, and their hashes as `sha256sum` writes and checks them.

Nothing that is not listed is read, no list names anything outside the folder, links are not followed, and contents are
hashed as they are read: what was checked is what is used. The hashes tell damage and mixed-up files; who made a bundle
they do not tell, so that every file is judged as a stranger's all the same.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import IO

from models.stored import shown
from tffapps.errors import UserError
from tffapps.files import replacing

SUMS = "SHA256SUMS"
MAX_BYTES = 2**30  # of one file; the largest network here has 0.3 GiB
_MAX_SUMS, _MOST_FILES = 2**16, 32
_LINE = re.compile(r"([0-9a-f]{64})  ([a-z0-9][a-z0-9._-]{0,63})")
_BLOCK = 2**20


class Folder:
    """One that holds a bundle. Its files are found whole and unchanged when it is opened, and again when read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise UserError(f"{path}: no such folder; give the folder `bundle` of a finished run")
        if not os.path.lexists(path / SUMS):
            raise UserError(f"{path}: not a bundle, it has no {SUMS}; give the folder `bundle` of a finished run")
        self._sums = self._listed()
        for name in self._sums:
            self._checked(name, keep=False)

    @property
    def names(self) -> list[str]:
        return list(self._sums)

    def read(self, name: str) -> bytes:
        """A file's contents, which must have the hash that is listed."""
        if name not in self._sums:
            raise UserError(f"{self.path}: {SUMS} lists no {name}; fetch the bundle again")
        return self._checked(name, keep=True)

    def _listed(self) -> dict[str, str]:
        contents = self._contents(SUMS, _MAX_SUMS)
        sums: dict[str, str] = {}
        for line in contents.decode("ascii", "replace").splitlines():
            found = _LINE.fullmatch(line)
            if found is None or found[2] in sums:
                raise UserError(
                    f"{self.path / SUMS}: {shown(repr(line))} is not the hash of a file of the bundle; fetch it again"
                )
            sums[found[2]] = found[1]
        if len(sums) > _MOST_FILES:
            raise UserError(f"{self.path / SUMS}: {len(sums)} files, at most {_MOST_FILES} are read; fetch it again")
        return sums

    def _checked(self, name: str, keep: bool) -> bytes:
        kept: list[bytes] = []
        with self._open(name, MAX_BYTES) as file:
            sha256 = _sha256(file, kept if keep else None)
        if sha256 != self._sums[name]:
            raise UserError(f"{self.path / name}: changed or damaged: its SHA-256 is not as listed; fetch it again")
        return b"".join(kept)

    def _contents(self, name: str, most: int) -> bytes:
        with self._open(name, most) as file:
            return file.read(most)

    def _open(self, name: str, most: int) -> IO[bytes]:
        path = self.path / name
        try:
            # Without waiting: a pipe in a file's place would never answer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise UserError(f"{path}: missing from the bundle; fetch it again") from None
        except OSError as error:
            reason = "a link" if path.is_symlink() else error.strerror
            raise UserError(f"{path}: cannot be read ({reason}); fetch the bundle again") from None
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > most:
            os.close(descriptor)
            what = f"{about.st_size} bytes, at most {most} are read" if stat.S_ISREG(about.st_mode) else "not a file"
            raise UserError(f"{path}: {what}; fetch the bundle again")
        return open(descriptor, "rb")


def write_sums(path: Path) -> None:
    """Lists the files of a folder."""
    names = sorted(entry.name for entry in path.iterdir() if entry.name != SUMS)
    lines = []
    for name in names:
        with open(path / name, "rb") as file:
            lines.append(f"{_sha256(file)}  {name}\n")
    with replacing(path / SUMS) as out:
        out.write("".join(lines))


def _sha256(file: IO[bytes], kept: list[bytes] | None = None) -> str:
    """Of a file's contents, which are added to `kept`."""
    known = hashlib.sha256()
    while block := file.read(_BLOCK):
        known.update(block)
        if kept is not None:
            kept.append(block)
    return known.hexdigest()
