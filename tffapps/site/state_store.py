"""Where a site keeps what its clients keep between rounds: files of its own, out of reach of its worker and its jobs.

    data/site-state/<name>/<caller>/<line>/<version>    one state after one round: SHA-256, a line of JSON, the arrays

A client's states in one run are a line. Of a line there are the newest state and the two that it came of: a round that
is played again after a crash begins with one of these. What is older goes, and so does a line that nobody has used for
as many days as the policy says. All lines together have as many bytes as the policy says, and no more.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tffapps.engine.tff_messages import array_pb2
from tffapps.errors import RunStopped, UserError
from tffapps.files import as_name, replacing
from tffapps.home import data_folder
from tffapps.site.relay import Refused

_HALF = 32  # letters of a handle that name the line; the others name the version
_LEAST_BYTES = 4096  # that a file takes on a disk
_SECONDS_A_DAY = 24 * 60 * 60
_EARLIER = 2  # states before the newest


def folder_of(name: str) -> Path:
    """Of a site; beside its log, where its worker and its jobs cannot open it."""
    return data_folder().absolute() / "site-state" / as_name(name)


class StateStore:
    """Of one site; `largest` is how many bytes it may take, `days` how long a state is kept that nobody asks for."""

    def __init__(self, folder: Path, largest: int, days: int) -> None:
        self._folder, self._largest, self._days, self._lock = folder, largest, days, threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
            for left in folder.glob("*/*/.*.tmp"):  # by a process that was killed
                left.unlink()
        except OSError as error:
            raise UserError(f"{folder}: what clients keep cannot be written there ({error.strerror})") from None

    def put(self, caller: str, arrays: Sequence[Any], before: str = "") -> str:
        """Keeps arrays (TFF's messages) that came of the state with the handle `before`, or are a first one's.

        Gives their handle; Refused where there is no room.
        """
        line, version = before[:_HALF] or secrets.token_hex(_HALF // 2), secrets.token_hex(_HALF // 2)
        content = b"".join(_framed(array.SerializeToString()) for array in arrays)
        with self._lock:
            earlier = [before[_HALF:], *self._head(self._file(caller, before))["earlier"]] if before else []
            head = json.dumps({"earlier": earlier[:_EARLIER], "arrays": len(arrays)}).encode() + b"\n"
            self._drop_old()
            place = self._file(caller, line + version)
            others = {file for file in _files(place.parent) if file.name not in earlier[:_EARLIER]}
            used = sum(_size(file) for file in _files(self._folder, "*/*/*") if file not in others)
            if used + max(_LEAST_BYTES, len(head) + len(content)) > self._largest:
                raise Refused(f"the site keeps {used} bytes of states; its policy allows {self._largest}")
            try:
                for folder in (place.parent.parent, place.parent):
                    folder.mkdir(exist_ok=True, mode=0o700)
                with replacing(place, "wb") as file:
                    os.fchmod(file.fileno(), 0o600)
                    file.write(hashlib.sha256(head + content).digest() + head + content)
            except (OSError, UserError, RunStopped):
                raise Refused("the site cannot write what its clients keep; is its disk full?") from None
            for unneeded in others:
                unneeded.unlink(missing_ok=True)
        return line + version

    def get(self, caller: str, handle: str) -> list[Any]:
        """The arrays of a state of this caller's; Refused if there is none."""
        with self._lock:
            place = self._file(caller, handle)
            try:
                content = place.read_bytes()
                os.utime(place)
            except OSError:
                raise Refused(
                    f"what this client keeps ({handle[:8]}) is not here: it was removed, is too old, or is another"
                    " site's; begin the run anew (--fresh)"
                ) from None
        stated, rest = content[:32], content[32:]
        if hashlib.sha256(rest).digest() != stated:
            raise Refused(f"what this client keeps ({handle[:8]}) is damaged; begin the run anew (--fresh)")
        return [array_pb2.Array.FromString(each) for each in _unframed(rest, rest.index(b"\n") + 1)]

    def forget(self, caller: str, handles: Iterable[str]) -> None:
        """Removes whole lines."""
        with self._lock:
            for line in {handle[:_HALF] for handle in handles}:
                shutil.rmtree(self._file(caller, line + "-").parent, ignore_errors=True)

    def _file(self, caller: str, handle: str) -> Path:
        return self._folder / as_name(caller) / handle[:_HALF] / handle[_HALF:]

    def _head(self, place: Path) -> dict[str, Any]:
        """What stands before the arrays, which were read before."""
        try:
            with open(place, "rb") as file:
                file.seek(32)
                return json.loads(file.readline())
        except (OSError, ValueError):
            raise Refused("what this client keeps has gone while its round was played") from None

    def _drop_old(self) -> None:
        oldest = time.time() - self._days * _SECONDS_A_DAY
        for line in _folders(self._folder, "*/*"):
            if max((file.stat().st_mtime for file in _files(line)), default=0.0) < oldest:
                shutil.rmtree(line, ignore_errors=True)


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(8, "big") + content


def _unframed(content: bytes, place: int) -> Iterator[bytes]:
    while place < len(content):
        end = place + 8 + int.from_bytes(content[place : place + 8], "big")
        yield content[place + 8 : end]
        place = end


def _files(folder: Path, pattern: str = "*") -> list[Path]:
    return [path for path in folder.glob(pattern) if path.is_file()]


def _folders(folder: Path, pattern: str) -> list[Path]:
    return [path for path in folder.glob(pattern) if path.is_dir()]


def _size(file: Path) -> int:
    with contextlib.suppress(OSError):
        return max(_LEAST_BYTES, file.stat().st_size)
    return 0
