"""Connections whose handshake is not done yet: some of each address, some in all, and none for long.

Who fills the room keeps nobody out: for every newcomer beyond the limit the one that has waited longest leaves, of the
same address, or of the address with most in the room. A handshake takes a fraction of a second; an idle one is old.
"""

import contextlib
import select
import socket
import ssl
import threading
import time

SECONDS = 10.0  # for a whole handshake
_MOST_OF_ADDRESS = 32
_MOST = 128


class WaitingRoom:
    def __init__(self, most_of_address: int = _MOST_OF_ADDRESS, most: int = _MOST) -> None:
        self._limits = most_of_address, most
        self._waiting: dict[socket.socket, str] = {}  # in the order in which they came -> from where
        self._lock = threading.Lock()

    def enter(self, connection: socket.socket, host: str) -> None:
        """Makes room for a connection from `host`."""
        most_of_address, most = self._limits
        with self._lock:
            hosts = list(self._waiting.values())
            if hosts.count(host) >= most_of_address:
                self._send_away(host)
            elif len(hosts) >= most:
                self._send_away(max(hosts, key=hosts.count))
            self._waiting[connection] = host

    def leave(self, connection: socket.socket) -> bool:
        """Whether it was still there: if not, its place went to another."""
        with self._lock:
            return self._waiting.pop(connection, None) is not None

    def _send_away(self, host: str) -> None:
        oldest = next(each for each, whose in self._waiting.items() if whose == host)
        del self._waiting[oldest]
        with contextlib.suppress(OSError):
            socket.socket.shutdown(oldest, socket.SHUT_RDWR)  # TLS's own would pull it from under its thread


def shake_hands(secured: ssl.SSLSocket, seconds: float = SECONDS) -> None:
    """The whole handshake within so many seconds, however the other end spreads its bytes; TimeoutError otherwise."""
    deadline = time.monotonic() + seconds
    secured.setblocking(False)
    while True:
        try:
            secured.do_handshake()
            return secured.setblocking(True)
        except ssl.SSLWantReadError:
            wanted = select.POLLIN
        except ssl.SSLWantWriteError:
            wanted = select.POLLOUT
        left = deadline - time.monotonic()
        poll = select.poll()
        poll.register(secured.fileno(), wanted)
        if left <= 0 or not poll.poll(1000 * left):
            raise TimeoutError("no handshake in time")
