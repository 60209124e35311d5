"""Connections that a site makes to its coordinator, handed out as a listening socket hands out those that come in.

Some are always open, so that the coordinator finds one when it wants one; one that ended is followed by another. Where
nobody listens, which is most of the time between two runs, it is tried again every few seconds.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
import time
from types import TracebackType
from typing import Any

from tffapps.wire.address import parse_address

AT_ONCE = 4  # a heartbeat, gRPC's own, and what follows either while it is not yet known to be gone
_SECONDS_BETWEEN = 1.0  # two that end at once: nobody there wants us
_LONGEST_PAUSE = 4.0
_CONNECT_SECONDS = 10.0


class DialOut:
    """To HOST:PORT. `ended` is to be called when a connection is no more."""

    def __init__(self, flag: str, text: str, log: logging.Logger) -> None:
        self._where, self._text, self._log = parse_address(flag, text), text, log
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._closed = threading.Event()
        self._reached: bool | None = None
        self._last = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection and where it leads, however long it takes; OSError (EBADF) once it is closed."""
        self._places.acquire()
        pause = 0.5
        while not self._closed.wait(max(0.0, self._last + _SECONDS_BETWEEN / AT_ONCE - time.monotonic())):
            self._last = time.monotonic()
            try:
                connection = socket.create_connection(self._where, timeout=_CONNECT_SECONDS)
            except OSError as error:
                if self._reached is not False:
                    self._log.info("nobody at %s (%s); trying again and again", self._text, error.strerror or error)
                self._reached = False
                self._closed.wait(pause)
                pause = min(_LONGEST_PAUSE, 2 * pause)
                continue
            if not self._reached:
                self._log.info("dialled %s", self._text)
            self._reached = True
            connection.settimeout(None)
            return connection, connection.getpeername()
        raise OSError(errno.EBADF, "closed")

    def ended(self) -> None:
        with contextlib.suppress(ValueError):  # it was closed meanwhile
            self._places.release()

    def fileno(self) -> int:
        return -1 if self._closed.is_set() else 0

    def shutdown(self, how: int) -> None:
        self.close()

    def close(self) -> None:
        self._closed.set()
        self.ended()

    def __enter__(self) -> DialOut:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
