"""Sites on this machine for tests: started, killed, started again on the same port."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator

from tests.engine.closed import ends, need_namespaces
from tests.site.conftest import files
from tffapps.site import confinement, data
from tffapps.site import policy as policies
from tffapps.site.budget import Budget
from tffapps.site.gatehouse import Gatehouse
from tffapps.site.guarded_worker import GuardedWorker
from tffapps.site.mailbox import Mailbox
from tffapps.site.policy import Policy
from tffapps.site.summing import Sums
from tffapps.wire.dial_out import DialOut
from tffapps.wire.forward import forward


class Member:
    """One site with its client's part of the images; what `site serve` does, but that nobody looks at the files.

    What it makes when asked lies in the folder in which the test works. Without `gate` it has nothing but its sandbox,
    and unless it is `sandboxed` not even that.
    """

    def __init__(
        self,
        images: pathlib.Path,
        folder: pathlib.Path,
        client: str,
        port: int = 0,
        gate: bool = True,
        policy: Policy | None = None,
        states: pathlib.Path | None = None,
        sandboxed: bool = True,
        **published,
    ) -> None:
        self.name, self._sandboxed = client, sandboxed
        name = client
        self._certificates = files(folder, name)
        table = data.load(images, name)
        self.description = {**data.describe(table, name), "formats": ["png"], **published}
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(data.working_folder(table, self.description))
        self.log = pathlib.Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tffapps-log-")))
        self.states = states or self.log / "states"  # what its client keeps
        self._gatehouse = self._stack.enter_context(
            Gatehouse(policy or policies.default(), self._folder, self.description, log=self.log, states=self.states)
        )
        self._guards = self._gatehouse.guards if gate else []
        self._taker = [self._gatehouse.keeper.taker] if gate else []
        self._mailbox = Mailbox(self._folder, table, self.description, permit=self._gatehouse.permits.job)
        self._stack.enter_context(_looking(self._mailbox))
        self.port = port
        self.budget = Budget(confinement.home_of(name), name)
        longest = policy.longest_update if policy is not None else None
        self.sums = Sums(name, self._certificates, self.budget, longest=longest)
        self.start()

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def _entrance(self) -> socket.socket | DialOut:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(16)
        self.port = listener.getsockname()[1]
        return listener

    def start(self) -> None:
        self.worker = GuardedWorker(
            self._entrance(), name=f"site {self.name}", folder=self._folder, certificates=self._certificates,
            guards=[*self._guards, self.sums, *self._taker],
            own={**self._mailbox.methods, **self._gatehouse.methods, **self.sums.methods},
            journal=self._gatehouse.log, allow_open=True,
            sandbox=confinement.of_the_worker(self._folder, self.name) if self._sandboxed else None,
        )  # fmt: skip

    def kill(self) -> None:
        """Everything, at once, as when a machine loses its power."""
        pids = (self.worker.supervisor_pid, self.worker.pid)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.worker.stop()
        assert all(ends(pid) for pid in pids)

    def close(self) -> None:
        self.worker.stop()
        self._stack.close()


@contextlib.contextmanager
def serving(folder: pathlib.Path, data: dict[str, pathlib.Path]) -> Iterator[list[Member]]:
    """A site for each name, with its part of that data."""
    need_namespaces()
    with contextlib.ExitStack() as stack:
        members = []
        for name, images in data.items():
            members.append(Member(images, folder, name))
            stack.callback(members[-1].close)
        yield members


def flags_for(folder: pathlib.Path, *addresses: str) -> list[str]:
    """What an application is given to run across these sites."""
    shown = zip(("cert", "key", "ca"), files(folder, "coordinator").paths())
    return ["--engine", ",".join(addresses), *(f"--{flag}={file}" for flag, file in shown)]


@contextlib.contextmanager
def _looking(mailbox: Mailbox) -> Iterator[None]:
    """Somebody who looks at what is asked, as `site serve` does."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.1):
            mailbox.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        mailbox.close()


class _Heard:
    """A socket whose incoming bytes are written down."""

    def __init__(self, plain, record: bytearray) -> None:
        self._plain, self._record = plain, record

    def recv_into(self, buffer) -> int:
        count = self._plain.recv_into(buffer)
        self._record += buffer[:count]
        return count

    def __getattr__(self, name: str):
        return getattr(self._plain, name)


@contextlib.contextmanager
def listening_in(folder: pathlib.Path, site: Member) -> Iterator[tuple[str, bytearray, bytearray]]:
    """Somebody with everybody's keys between the coordinator and a site: an address, what went in, what came out."""
    import ssl

    towards_site = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    towards_site.load_cert_chain(folder / "coordinator.pem", folder / "coordinator.key")
    towards_site.set_alpn_protocols(["h2"])
    as_site = files(folder, site.name).server_context()
    inward, outward = bytearray(), bytearray()
    listener = socket.create_server(("127.0.0.1", 0))

    def attend(plain: socket.socket) -> None:
        with contextlib.suppress(OSError), as_site.wrap_socket(plain, server_side=True) as outer:
            to_site = socket.create_connection(("localhost", site.port))
            with towards_site.wrap_socket(to_site, server_hostname="localhost") as inner:
                forward(_Heard(outer, inward), _Heard(inner, outward))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=attend, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield f"localhost:{listener.getsockname()[1]}", inward, outward
        listener.shutdown(socket.SHUT_RDWR)
