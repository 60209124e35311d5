"""HTTP for the platform: werkzeug's threaded server, with a time for every request and a bound on connections."""

from __future__ import annotations

import sys
import threading
from typing import Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from tffapps import UserError

_SECONDS, _CONNECTIONS = 20, 64
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _Handler(WSGIRequestHandler):
    timeout = _SECONDS
    protocol_version = "HTTP/1.0"  # one request a connection: an idle one keeps no thread

    def version_string(self) -> str:
        return "tffapps"

    def log(self, type: str, message: str, *args: Any) -> None:
        """Nothing: an address beside a question would be more than the log may hold."""


class Server(ThreadedWSGIServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, application: Any) -> None:
        self._room = threading.BoundedSemaphore(_CONNECTIONS)
        try:
            super().__init__(host, port, application, handler=_Handler)
        except (OSError, SystemExit) as error:
            why = error.strerror if isinstance(error, OSError) else "it cannot be listened at; is it taken?"
            raise UserError(f"--listen {host}:{port}: {why}; give another") from None

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def address_of(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise UserError(f"--listen {listen}: expected HOST:PORT such as 127.0.0.1:8000")
    return host.strip("[]"), int(port)


def names_of(host: str, port: int, given: list[str]) -> set[str]:
    """What a browser may call this server: a page from elsewhere could ask for it under a name of its own."""
    own = [f"{name}:{port}" for name in (*(LOOPBACK if host in LOOPBACK else ()), host)]
    return {*own, *given, *(f"{name}:{port}" for name in given)}
