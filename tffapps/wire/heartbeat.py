"""Whether a site is still there, told from a connection on which nothing else happens.

The connection goes through the site's door to its worker, so it ends with either of them, at once; where a machine or
a cable is gone the kernel's own probes find out within seconds. How long the worker takes to answer does not matter:
pings of gRPC's own would be refused by a worker that is busy for minutes.
"""

import contextlib
import threading

from cryptography import x509

from tffapps.wire.certificate_checks import common_name
from tffapps.wire.certificates import Certificates
from tffapps.wire.channel import greeted
from tffapps.wire.tls_proxy import probe

_SETTINGS, _PING, _GOODBYE, _ACKNOWLEDGED = 4, 6, 7, 1  # of HTTP/2
_HEADER = 9  # bytes of a frame: three of length, type, flags, four for the stream
_SECONDS_BETWEEN_LOOKS = 0.5


class Heartbeat:
    """Beats from the moment it is made until the site's end or `close`."""

    def __init__(self, address: str, certificates: Certificates, timeout: float = 5.0) -> None:
        self._connection, first = greeted(address, certificates, timeout)
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
            while not self._ended.is_set():
                try:
                    piece = self._connection.recv(2**14)
                except TimeoutError:
                    continue
                if not piece:
                    break
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
                reply = content if kind == _PING else b""
                self._connection.sendall(
                    len(reply).to_bytes(3, "big") + bytes([kind, _ACKNOWLEDGED, 0, 0, 0, 0]) + reply
                )
        return unread
