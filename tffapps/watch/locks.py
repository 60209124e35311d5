"""Whether a process holds a run's lock, asked without taking it: a run that starts meanwhile must find it free."""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

_TABLE = Path("/proc/locks")  # of Linux: every lock of every process that can be seen from here


def held() -> Callable[[Path], bool]:
    """A function that says of a lock's file whether it is held, as of now."""
    try:
        lines = _TABLE.read_text().splitlines()
    except OSError:
        return _tried
    # "7: FLOCK  ADVISORY  WRITE 28860 fe:00:2148742 0 EOF". Devices are left out: file systems in layers report others.
    inodes = {fields[5].rpartition(":")[2] for fields in map(str.split, lines) if len(fields) > 5 and "FLOCK" in fields}

    def known(path: Path) -> bool:
        try:
            return str(os.stat(path, follow_symlinks=False).st_ino) in inodes
        except OSError:
            return False

    return known


def _tried(path: Path) -> bool:
    """For other systems: takes a shared lock for a moment."""
    with contextlib.suppress(FileNotFoundError, PermissionError), open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
