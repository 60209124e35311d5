"""The page and what it asks for, over HTTP on the loopback device: read-only, three paths, nothing of the disk by name.

A web page from elsewhere could have a browser ask this server under a name of its own (DNS rebinding); such a request
has another Host and is refused. No other page may read the answers, nor show this one in a frame.
"""

import json
import sys
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tffapps.watch.page import CONTENT_POLICY, PAGE
from tffapps.watch.runs import Runs

ADDRESS = "127.0.0.1"
_NAMES = (ADDRESS, "localhost")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_SECONDS = 20  # that a client may take over a request


class Server(ThreadingHTTPServer):
    """`with Server(runs, port) as server: server.serve_forever()`; port 0 is any that is free."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, runs: Runs, port: int = 0) -> None:
        self.runs = runs
        super().__init__((ADDRESS, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is none; anything else is."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "tffapps", ""
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in {f"{name}:{self.server.port}" for name in _NAMES}:
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", b"this server answers to 127.0.0.1 and localhost alone\n")
            return
        path, _, query = self.path.partition("?")
        if path == "/":
            self._answer(HTTPStatus.OK, "text/html", PAGE)
        elif path == "/runs.json":
            since = _asked(query, "since")
            number = int(since) if since.isascii() and since.isdigit() and len(since) < 16 else 0
            self._json(self.server.runs.listing(number))
        elif path == "/run.json" and (details := self.server.runs.details(_asked(query, "run"))) is not None:
            self._json(details)
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n")

    do_HEAD = do_GET

    def _json(self, content: object) -> None:
        self._answer(HTTPStatus.OK, "application/json", json.dumps(content, allow_nan=False).encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a page asks every other second."""


def _asked(query: str, name: str) -> str:
    """A parameter of a request; "" if it is not there."""
    try:
        return urllib.parse.parse_qs(query, max_num_fields=4).get(name, [""])[0]
    except ValueError:  # more parameters than that
        return ""
