"""Who may come in: accepted connections, their TLS handshake, and a line in the log for each."""

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from tffapps.wire.certificates import Certificates
from tffapps.wire.forward import forward

_MOST_CALLERS = 64
_HANDSHAKE_SECONDS = 10.0
_GOODBYE_SECONDS = 2.0
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no certificate",
    "HTTP_REQUEST": "no TLS",
    "WRONG_VERSION_NUMBER": "no TLS",
}


class TlsProxy:
    """Takes connections from a listening socket to what `inside` gives, each in a thread of its own."""

    def __init__(
        self,
        listener: socket.socket,
        certificates: Certificates | None,
        inside: Callable[[], socket.socket],
        log: logging.Logger,
    ) -> None:
        self._listener, self._inside, self._log = listener, inside, log
        self._context = certificates.server_context() if certificates else None
        self._places = threading.BoundedSemaphore(_MOST_CALLERS)

    def accept(self) -> None:
        """Takes one connection, if there is one."""
        try:
            outer, address = self._listener.accept()
        except OSError:  # it went away, or there are no more file descriptors
            return
        where = _shown(address)
        if not self._places.acquire(blocking=False):
            self._log.warning("refused %s: %s connections are open already", where, _MOST_CALLERS)
            outer.close()
            return
        threading.Thread(target=self._attend, args=(outer, where), daemon=True).start()

    def _attend(self, outer: socket.socket, where: str) -> None:
        try:
            probe(outer, idle=30, interval=10, count=6)  # nothing is said while a round is trained
            try:
                outer, who = self._admitted(outer)
            except OSError as error:
                self._log.warning("refused %s: %s", where, _reason(error))
                return
            caller = f"{who} ({where})" if who else where
            with contextlib.closing(outer):
                self._connect(outer, caller)
        except Exception:
            self._log.exception("the connection from %s broke", where)
        finally:
            self._places.release()

    def _admitted(self, outer: socket.socket) -> tuple[socket.socket, str]:
        """The connection to go on with, and the name on the caller's certificate."""
        if self._context is None:
            return outer, ""
        outer.settimeout(_HANDSHAKE_SECONDS)
        secured = self._context.wrap_socket(outer, server_side=True, do_handshake_on_connect=False)
        try:
            secured.do_handshake()
            if secured.selected_alpn_protocol() != "h2":
                raise OSError("not a gRPC client")
        except OSError:
            _say_goodbye(secured)
            raise
        return secured, _common_name(secured.getpeercert())

    def _connect(self, outer: socket.socket, caller: str) -> None:
        begin = time.monotonic()
        try:
            inner = self._inside()
        except OSError as error:
            self._log.warning("%s was turned away: %s", caller, error)
            return
        self._log.info("%s connected", caller)
        with contextlib.closing(inner):
            received, sent = forward(outer, inner)
        seconds = time.monotonic() - begin
        self._log.info("%s left after %.1f s, %d bytes received, %d bytes sent", caller, seconds, received, sent)


def probe(end: socket.socket, *, idle: int, interval: int, count: int) -> None:
    """Has the kernel ask after `idle` seconds of silence whether the other end is there, and give up after `count`."""
    wanted = {"TCP_KEEPIDLE": idle, "TCP_KEEPINTVL": interval, "TCP_KEEPCNT": count}
    with contextlib.suppress(OSError):  # a Unix socket has no such options
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in wanted.items():
            if hasattr(socket, name):  # where there is none the system's own is used
                end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _say_goodbye(outer: socket.socket) -> None:
    """Closes so that the caller can read why: unread bytes would make the kernel cut the line at once."""
    with contextlib.closing(outer), contextlib.suppress(OSError):
        outer.settimeout(_GOODBYE_SECONDS)
        outer.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _GOODBYE_SECONDS
        while time.monotonic() < deadline and outer.recv(2**16):
            pass


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError) and error.reason:
        return _REASONS.get(error.reason, error.reason.replace("_", " ").lower())
    return str(error.strerror or error or type(error).__name__)


def _common_name(certificate: Any) -> str:
    """The name a verified certificate is for, as it can be shown in one line."""
    fields = [pair for group in (certificate or {}).get("subject", ()) for pair in group]
    name = next((value for kind, value in fields if kind == "commonName"), "a certificate without a name")
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _shown(address: Any) -> str:
    if not isinstance(address, tuple):
        return "this machine"
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"
