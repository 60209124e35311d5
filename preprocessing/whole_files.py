"""Files that are either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from preprocessing.errors import RunStopped, UserError


@contextlib.contextmanager
def replacing(path: Path, mode: str = "w", lasting: bool = True) -> Iterator[IO]:
    """Opens a temporary file beside `path` that takes its place when the block ends without an error.

    It and its name are on the disk by then. Unless `lasting`, they need not be: what can be made again, and is looked
    at before it is used. After a power cut such a file may be there and empty.
    A UserError, or RunStopped where the disk is full, names `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, mode) as file:
            yield file
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if lasting:
            _sync_folder(path.parent)
    except OSError as error:
        if is_full(error):
            raise RunStopped(no_space(path)) from error
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def no_space(path: str | Path | None) -> str:
    """What a full disk means for a command."""
    return f"no space left to write {path or 'a file'}; free some and run the same command again"


def _sync_folder(folder: Path) -> None:
    """A new name is the folder's content; some file systems cannot sync one, and lose nothing by it here."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
