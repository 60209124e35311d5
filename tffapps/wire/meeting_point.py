"""Where a coordinator waits for sites that dial out.

Only the direction of the call is another: on the connection that a site has made the coordinator speaks first, shows
its certificate and asks for the site's, as on one that it had made itself. Who has shown the certificate of an awaited
site is kept until a connection with that site is wanted; everybody else is sent away. A site keeps some connections
here, so one is there when the last was used up.
"""

from __future__ import annotations

import contextlib
import errno
import select
import shutil
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence

import grpc
from cryptography import x509

from tffapps.errors import UserError
from tffapps.wire import certificate_checks, channel, grpc_options, listening, unix_socket
from tffapps.wire.certificates import Certificates
from tffapps.wire.forward import forward
from tffapps.wire.tls_proxy import probe
from tffapps.wire.waiting_room import WaitingRoom, shake_hands

FIRST_SECONDS = 60.0  # for a site that was not here yet
AGAIN_SECONDS = 8.0  # for one that was; it dials more often than that
_MOST_KEPT = 8  # connections of one site
_FULL_SECONDS = 0.2


class MeetingPoint:
    """Waits at `place`, HOST:PORT, for the sites of these names, from the moment it is made."""

    def __init__(self, place: str, certificates: Certificates, names: Sequence[str]) -> None:
        self._certificates = certificates
        self._context = certificates.client_context()
        self._context.check_hostname = False  # a site is known by its name, wherever it calls from
        self._kept: dict[str, deque[ssl.SSLSocket]] = {name: deque() for name in names}
        self._were_here: set[str] = set()
        self._refused: dict[str, str] = {}  # by name, why the last that came under it was sent away
        self._changed = threading.Condition()
        self._waiting = WaitingRoom()
        self._listener = listening.bind("--engine", place)
        listening.begin("--engine", place, self._listener)
        self.address = listening.shown(self._listener)
        self._folder = unix_socket.private_folder("tffapps-meet-")
        self._doors: dict[str, socket.socket] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self, name: str) -> ssl.SSLSocket:
        """A connection with the site, which is the caller's from now on; Unreachable if there is none in time."""
        seconds = AGAIN_SECONDS if name in self._were_here else FIRST_SECONDS
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                while self._kept[name]:
                    connection = self._kept[name].popleft()
                    if _is_open(connection):
                        self._were_here.add(name)
                        return connection
                    connection.close()
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    why = f" (sent away: {self._refused[name]})" if name in self._refused else ""
                    what = f"{name}@{self.address}: the site did not call within {seconds:g} s{why}"
                    raise channel.Unreachable(f"{what}; is `site join` running there?")

    def channel(self, name: str) -> grpc.Channel:
        """gRPC makes connections itself: it is given a door of this process that leads to those of the site."""
        with self._changed:
            path = self._folder / str(list(self._kept).index(name))
            if name not in self._doors:
                self._doors[name] = unix_socket.listen(path)
                threading.Thread(target=self._lead, args=(self._doors[name], name), daemon=True).start()
        return grpc.insecure_channel(
            f"unix:{path}", options=[*grpc_options.OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        )

    def close(self) -> None:
        for listener in (self._listener, *self._doors.values()):
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._changed:
            for kept in self._kept.values():
                while kept:
                    kept.pop().close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _lead(self, door: socket.socket, name: str) -> None:
        def attend(inner: socket.socket) -> None:
            with (
                contextlib.closing(inner),
                contextlib.suppress(UserError, OSError),
                contextlib.closing(self.take(name)) as outer,
            ):
                forward(outer, inner)

        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=attend, args=(door.accept()[0],), daemon=True).start()

    def _accept(self) -> None:
        while self._listener.fileno() >= 0:
            try:
                plain, address = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):
                    return
                time.sleep(_FULL_SECONDS)
                continue
            threading.Thread(target=self._welcome, args=(plain, address[0]), daemon=True).start()

    def _welcome(self, plain: socket.socket, host: str) -> None:
        try:
            probe(plain, idle=5, interval=2, count=3)
            secured = self._context.wrap_socket(plain, do_handshake_on_connect=False)
        except OSError:
            return plain.close()
        self._waiting.enter(secured, host)
        try:
            shake_hands(secured)
            name = self._name_of(secured)
        except (OSError, UserError, ValueError):
            secured.close()
            return
        finally:
            self._waiting.leave(secured)
        with self._changed:
            kept = self._kept[name]
            kept.append(secured)
            if len(kept) > _MOST_KEPT:
                kept.popleft().close()
            self._changed.notify_all()

    def _name_of(self, secured: ssl.SSLSocket) -> str:
        """Of an awaited site; UserError for who is none."""
        name = certificate_checks.common_name(x509.load_der_x509_certificate(secured.getpeercert(True) or b""))
        if name not in self._kept:
            raise UserError(f"{name:.60} is not awaited")
        try:
            channel.check_site(f"{name}@{self.address}", secured, self._certificates)
        except UserError as error:
            self._refused[name] = str(error).partition(": ")[2]
            raise
        return name


def _is_open(connection: ssl.SSLSocket) -> bool:
    """A site says nothing before it is asked: whatever there is to read is its goodbye."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)
