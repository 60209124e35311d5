"""Whether a site is still there, told from a connection on which nothing else happens.

The connection goes through the site's door to its relay, so it ends with either of them, at once; where a machine or a
cable is gone the kernel's own probes find out within seconds. A site that is frozen, its connections open, answers no
ping: it is given up after a while. How long the worker takes does not matter: the relay answers beside it.
"""

import contextlib
import ssl
import threading
import time

from cryptography import x509

from tffapps.wire.certificate_checks import common_name
from tffapps.wire.tls_proxy import probe

_SETTINGS, _PING, _GOODBYE, _ACKNOWLEDGED = 4, 6, 7, 1  # of HTTP/2
_HEADER = 9  # bytes of a frame: three of length, type, flags, four for the stream
_SECONDS_BETWEEN_LOOKS = 0.5
SILENCE_SECONDS = 60.0  # after which a site is given up; it is asked six times meanwhile
_QUESTION = b"tffapps?"  # what comes back from a ping; eight bytes


class Heartbeat:
    """Beats from the moment it is made until the site's end or `close`."""

    def __init__(self, connection: ssl.SSLSocket, first: bytes) -> None:
        """Of a connection on which the site has answered, and the first bytes of its answer."""
        self._connection = connection
        certificate = x509.load_der_x509_certificate(self._connection.getpeercert(True) or b"")
        self.name = common_name(certificate)  # of the site
        self._ended = threading.Event()
        probe(self._connection, idle=5, interval=2, count=3)
        self._connection.settimeout(_SECONDS_BETWEEN_LOOKS)
        threading.Thread(target=self._listen, args=(first,), daemon=True).start()

    def beats(self) -> bool:
        return not self._ended.is_set()

    def close(self) -> None:
        self._ended.set()

    def _listen(self, unread: bytes) -> None:
        with contextlib.closing(self._connection), contextlib.suppress(OSError):
            heard = asked = time.monotonic()
            while not self._ended.is_set():
                try:
                    piece = self._connection.recv(2**14)
                except TimeoutError:
                    now = time.monotonic()
                    if now - heard > SILENCE_SECONDS:
                        break
                    if now - max(heard, asked) > SILENCE_SECONDS / 6:
                        self._send(_PING, 0, _QUESTION)
                        asked = now
                    continue
                if not piece:
                    break
                heard = time.monotonic()
                unread = self._answer(unread + piece)
        self._ended.set()

    def _answer(self, unread: bytes) -> bytes:
        """Acknowledges the frames that want it; returns the rest of one that is not all there."""
        while len(unread) >= _HEADER:
            length, kind, flags = int.from_bytes(unread[:3], "big"), unread[3], unread[4]
            if len(unread) < _HEADER + length:
                break
            content, unread = unread[_HEADER : _HEADER + length], unread[_HEADER + length :]
            if kind == _GOODBYE:
                self._ended.set()
            elif kind in (_SETTINGS, _PING) and not flags & _ACKNOWLEDGED:
                self._send(kind, _ACKNOWLEDGED, content if kind == _PING else b"")
        return unread

    def _send(self, kind: int, flags: int, content: bytes) -> None:
        """A frame of stream 0."""
        self._connection.sendall(len(content).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, 0]) + content)
