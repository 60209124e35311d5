"""Who may come in: accepted connections, their TLS handshake, and a line in the log for each."""

import contextlib
import errno
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from tffapps.wire.forward import forward
from tffapps.wire.waiting_room import WaitingRoom, shake_hands

_MOST_CALLERS = 64  # that have shown their certificate
_GOODBYE_SECONDS = 2.0
_FULL_SECONDS = 0.2  # before another try where no more connections can be open
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no certificate",
    "HTTP_REQUEST": "no TLS",
    "WRONG_VERSION_NUMBER": "no TLS",
}


class Listener(Protocol):
    """What connections come from: a listening socket, or a `DialOut`."""

    def accept(self) -> tuple[socket.socket, Any]: ...
    def fileno(self) -> int: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


class TlsProxy:
    """Takes connections from a listening socket to what `inside` gives, each in a thread of its own."""

    def __init__(
        self,
        listener: Listener,
        context: ssl.SSLContext | None,
        inside: Callable[[str], socket.socket],
        log: logging.Logger,
        why_not: Callable[[bytes], str] = lambda certificate: "",
        ended: Callable[[], None] | None = None,
    ) -> None:
        """`inside` is given the name on the caller's certificate; without a `context` nobody is asked for one.

        `why_not` says, of a certificate that TLS has found good, why its owner does not come in. With `ended`, which
        is called for every connection that is no more, connections are kept ready: nothing is said on one, and it is
        not taken inside, before its other end has spoken.
        """
        self._listener, self._context, self._inside, self._log = listener, context, inside, log
        self._why_not, self._ended = why_not, ended
        self._waiting = WaitingRoom()
        self._places = threading.BoundedSemaphore(_MOST_CALLERS)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def accept(self) -> bool:
        """Takes one connection, if there is one; whether there may be more."""
        try:
            outer, address = self._listener.accept()
        except OSError as error:  # it went away, or there are no more file descriptors
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                time.sleep(_FULL_SECONDS)
            return error.errno not in (errno.EBADF, errno.EINVAL)
        if self._context is not None:
            try:
                outer = self._context.wrap_socket(outer, server_side=True, do_handshake_on_connect=False)
            except OSError:  # it went away
                outer.close()
                self._end()
                return True
            self._waiting.enter(outer, address[0])
        threading.Thread(target=self._attend, args=(outer, _shown(address)), daemon=True).start()
        return True

    def drop(self) -> None:
        """Ends all connections that are open now."""
        with self._lock:
            for outer in self._open:
                with contextlib.suppress(OSError):
                    outer.shutdown(socket.SHUT_RDWR)

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
                if not self._places.acquire(blocking=False):
                    self._log.warning("refused %s: %s connections are open already", where, _MOST_CALLERS)
                    return
                try:
                    self._connect(outer, who, caller)
                finally:
                    self._places.release()
        except Exception:
            self._log.exception("the connection from %s broke", where)
        finally:
            self._end()

    def _end(self) -> None:
        if self._ended is not None:
            self._ended()

    def _admitted(self, outer: socket.socket) -> tuple[socket.socket, str]:
        """The connection to go on with, and the name on the caller's certificate."""
        if not isinstance(outer, ssl.SSLSocket):
            return outer, ""
        try:
            try:
                shake_hands(outer)
            except BaseException:
                if not self._waiting.leave(outer):
                    raise OSError("others came while it was silent") from None
                raise
            self._waiting.leave(outer)
            why = self._why_not(outer.getpeercert(True) or b"")
            if why or outer.selected_alpn_protocol() != "h2":
                raise OSError(why or "not a gRPC client")
        except OSError:
            _say_goodbye(outer)
            raise
        return outer, _common_name(outer.getpeercert())

    def _connect(self, outer: socket.socket, who: str, caller: str) -> None:
        if self._ended is not None and not self._is_spoken_to(outer):
            return
        begin = time.monotonic()
        try:
            inner = self._inside(who)
        except OSError as error:
            self._log.warning("%s was turned away: %s", caller, error)
            return
        self._log.info("%s connected", caller)
        with contextlib.closing(inner), self._dropped(outer):
            received, sent = forward(outer, inner)
        seconds = time.monotonic() - begin
        self._log.info("%s left after %.1f s, %d bytes received, %d bytes sent", caller, seconds, received, sent)

    def _is_spoken_to(self, outer: socket.socket) -> bool:
        """Waits until there is something to read; whether that is more than the end of it."""
        with self._dropped(outer), contextlib.suppress(OSError):
            poll = select.poll()
            poll.register(outer.fileno(), select.POLLIN)
            poll.poll()
            return bool(socket.socket.recv(outer, 1, socket.MSG_PEEK))  # of the bytes below TLS
        return False

    @contextlib.contextmanager
    def _dropped(self, outer: socket.socket) -> Iterator[None]:
        """Within the block the connection is one of those that `drop` ends."""
        with self._lock:
            self._open.add(outer)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(outer)


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
