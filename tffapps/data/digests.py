"""SHA-256 of files, remembered beside what is made of them: a file that did not change is not read a second time.

    <memo>      JSON: absolute path -> [bytes, time of its content, time of its inode, SHA-256]

Both times are nanoseconds. The inode's changes also where a copy brings the time of its content along, so a file of the
same size and date in another's place is read anew. Two processes may write the memo at once: it is whole at any time,
and what one of them loses of the other's is worked out again.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tffapps.errors import RunStopped, UserError
from tffapps.files import replacing

# A file may be written twice within one tick of a file system's clock: so young a file is not remembered.
_YOUNG = 2_000_000_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256_of(paths: Iterable[str], memo: Path) -> dict[str, str]:
    """The SHA-256 of each file's content. A UserError names a file that cannot be read."""
    known = _read(memo)
    found: dict[str, str] = {}
    learned: dict[str, list[Any]] = {}
    for path in dict.fromkeys(paths):
        full = os.path.abspath(path)
        try:
            mark = _mark(path)
            remembered = _remembered(known.get(full), mark)
            found[path] = remembered or hashlib.sha256(Path(path).read_bytes()).hexdigest()
            if not remembered and _mark(path) == mark and time.time_ns() - max(mark[1:]) > _YOUNG:
                learned[full] = [*mark, found[path]]
        except OSError as error:
            raise UserError(f"{path}: cannot be opened: {error.strerror}; it could be read before") from None
    if learned:
        _write(memo, learned)
    return found


def _mark(path: str) -> list[int]:
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _remembered(entry: Any, mark: list[int]) -> str:
    """The SHA-256 in an entry, which anybody may have edited, if it is one of a file with this mark; else ""."""
    if isinstance(entry, list) and len(entry) == len(mark) + 1 and entry[:-1] == mark:
        return entry[-1] if isinstance(entry[-1], str) and _SHA256.fullmatch(entry[-1]) else ""
    return ""


def _read(memo: Path) -> dict[str, Any]:
    """Nothing where there is none, or a damaged one."""
    try:
        content = json.loads(memo.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(memo: Path, learned: dict[str, list[Any]]) -> None:
    """Adds to what is there by now; files that are gone are forgotten, so that it does not grow for ever."""
    kept = {path: entry for path, entry in _read(memo).items() if os.path.exists(path)}
    # It only saves time: a run does not end for want of it.
    with contextlib.suppress(UserError, RunStopped), replacing(memo) as file:
        json.dump(kept | learned, file, separators=(",", ":"))
