"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import urllib.parse
from collections.abc import Iterator
from typing import IO

from tffapps.errors import RunStopped, UserError


@contextlib.contextmanager
def replacing(path: pathlib.Path, mode: str = "w") -> Iterator[IO]:
    """Opens a temporary file beside `path` that takes its place when the block ends without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise _plain(error, path) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def as_name(text: str) -> str:
    """Any text, such as a client's name, as the name of one file or folder."""
    return urllib.parse.quote(text, safe="").replace(".", "%2E")


def from_name(name: str) -> str:
    """What `as_name` was given."""
    return urllib.parse.unquote(name)


def short(path: str) -> str:
    """As the user would name it: relative where it lies below the working folder."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def no_space(path: str | pathlib.Path | None) -> str:
    """What a full disk means for a run."""
    return f"no space left to write {path or 'a file'}; free some and run the same command again"


def _plain(error: OSError, path: pathlib.Path) -> Exception:
    if is_full(error):
        return RunStopped(no_space(path))
    return UserError(f"cannot write {path}: {error.strerror}")
