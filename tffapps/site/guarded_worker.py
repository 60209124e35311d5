"""A site's worker and everything in front of it: the door that asks for a certificate, the relay, its guards."""

import contextlib
import logging
import pathlib
import shutil
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from tffapps.engine.closed_worker import ClosedWorker
from tffapps.engine.sandbox import Sandbox
from tffapps.site.relay import Guard, Journal, Relay
from tffapps.wire import unix_socket
from tffapps.wire.admission import Admission
from tffapps.wire.certificates import Certificates
from tffapps.wire.dial_out import DialOut
from tffapps.wire.tls_proxy import Listener, TlsProxy


class GuardedWorker(ClosedWorker):
    """Starts when made, is reached through `listener`, and ends with `stop` or with this process.

    The listener, which may be one that dials out, is closed by `stop`. `folder` is the worker's, `remove` one to
    remove at the end; `guards`, `own` and `journal` are the relay's; `coordinator` are fingerprints of the certificates
    that come in, if not every coordinator's does.
    """

    def __init__(
        self,
        listener: socket.socket | DialOut,
        *,
        name: str,
        certificates: Certificates,
        folder: pathlib.Path | None = None,
        guards: Sequence[Guard] = (),
        own: Mapping[str, Callable[[str, bytes], bytes]] | None = None,
        journal: Journal | None = None,
        coordinator: tuple[str, ...] = (),
        allow_open: bool = False,
        log: IO[Any] | None = None,
        remove: pathlib.Path | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._listener = listener
        self._sockets = unix_socket.private_folder("tffapps-gate-")
        self._relay: Relay | None = None
        try:
            context = certificates.server_context()
            path = self._sockets / "worker"
            super().__init__(
                unix_socket.listen(path), name=name, folder=folder, restart=True, allow_open=allow_open, log=log,
                remove=[self._sockets, *([remove] if remove else [])], sandbox=sandbox,
            )  # fmt: skip
            logger = logging.getLogger(f"tffapps.site.{name.removeprefix('site ')}")
            self._relay = Relay(
                path, self._sockets, guards, own=own, journal=journal, log=logger, when_lost=lambda: door.drop()
            )
            why_not = Admission(certificates, coordinator).why_not
            ended = listener.ended if isinstance(listener, DialOut) else None
            door = TlsProxy(listener, context, self._relay.entrance, logger, why_not, ended)
        except BaseException:
            listener.close()
            shutil.rmtree(self._sockets, ignore_errors=True)
            raise
        self._door = door
        threading.Thread(target=self._attend, daemon=True).start()

    def _attend(self) -> None:
        while self._listener.fileno() >= 0 and self._door.accept():
            pass

    def stop(self) -> None:
        if self._relay is not None:
            with self._listener:
                _wake(self._listener)
            self._door.drop()
            self._relay.close()
        super().stop()
        shutil.rmtree(self._sockets, ignore_errors=True)


def _wake(listener: Listener) -> None:
    """Has a thread that waits for the next connection see that there is none."""
    with contextlib.suppress(OSError):  # it does not listen
        listener.shutdown(socket.SHUT_RDWR)
