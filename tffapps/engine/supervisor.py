"""The process between TFF's worker and whoever calls it. It needs nothing but Python's own library.

It is handed a listening socket, enters a private network, starts the worker there and forwards what it accepts:

    caller ──Unix socket──► supervisor ──127.0.0.1 of the private network──► worker

The worker's port, open to all and without authentication, exists in that private network only. It ends with its
parent, the worker ends with it, and its reports to the parent are lines of JSON.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from tffapps.engine import namespace, sandbox
from tffapps.engine.sandbox import Sandbox
from tffapps.wire.tls_proxy import TlsProxy

_PR_SET_PDEATHSIG = 1
_LINES_KEPT = 20
_SHORT_LIFE = 30.0  # a worker that ends sooner is followed by the next after a pause
_LONGEST_PAUSE = 30.0
LOG_TIME = "%Y-%m-%d %H:%M:%S"


@dataclasses.dataclass(frozen=True)
class Orders:
    """What a supervisor is told, as JSON on its command line."""

    parent: int  # process id
    listener: int  # file descriptor of the listening socket
    reports: int  # file descriptor to write reports to
    name: str  # how it calls itself in its log
    binary: str  # the worker's
    folder: str  # where the worker resolves relative paths
    start_timeout: float
    closed: bool = True  # False: without a private network
    restart: bool = False  # start another worker after one that died; otherwise end
    sandbox: Sandbox | None = None  # what the worker may do; without one, all that its user may
    remove: Sequence[str] = ()  # folders to remove at the end, also when the parent is gone

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Orders:
        fields = json.loads(text)
        confined = fields.pop("sandbox")
        return cls(**fields, sandbox=Sandbox(**confined) if confined else None)


class _Worker:
    """One life of the worker: its process, its port and the last it said."""

    def __init__(self, orders: Orders) -> None:
        self.port = _free_port()
        self.started = time.monotonic()
        program = [orders.binary, f"--port={self.port}"]
        self.process = subprocess.Popen(
            sandbox.command(orders.sandbox, program, os.getpid()),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=orders.folder, start_new_session=True,
        )  # fmt: skip
        self._lines: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            text = line.decode(errors="replace").strip()
            if text:
                self._lines.append(text)

    def last_words(self) -> str:
        self._listening.join(timeout=1)
        return self._lines[-1] if self._lines else "no output"

    def answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(0.2)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class Supervisor:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._worker: _Worker | None = None
        self._leave = False
        self._told_to_end = False
        self._wake_up: socket.socket | None = None  # kept to the very end: signals are still written to it
        self._log = logging.getLogger("supervisor")

    def tell_to_end(self, *_: Any) -> None:
        """A handler of signals. It raises nothing, so nothing is broken off, least of all the removal of folders."""
        self._told_to_end = True

    def run(self) -> None:
        if self._orders.closed:
            try:
                namespace.enter()
            except OSError as error:
                self._leave = True  # another supervisor may follow this one
                return self.report("forbidden", why=error.strerror)
        # After the namespace: a process that changes its rights loses this setting.
        die_with(self._orders.parent)
        try:
            listener = socket.socket(fileno=self._orders.listener)
            door = TlsProxy(listener, None, lambda _: self._inside(), _quiet("supervisor.door"))
            self._worker = worker = _Worker(self._orders)
            self._wait_until_it_answers(worker)
        except _CannotStart as error:
            return self.report("failed", why=str(error))
        except OSError as error:  # of a program that cannot be started
            return self.report("failed", why=f"{error.strerror or error}")
        self.report("ready", pid=worker.process.pid, port=worker.port)
        self._serve(listener, door)

    def end(self) -> None:
        if self._worker is not None:
            self._worker.end()
        if not self._leave:
            for folder in self._orders.remove:
                shutil.rmtree(folder, ignore_errors=True)

    def _serve(self, listener: socket.socket, door: TlsProxy) -> None:
        listener.setblocking(False)
        self._wake_up = wake_up = _wake_up_at_signals()
        pause, next_start = 0.0, 0.0
        while not self._told_to_end:  # a signal that comes from here on wakes up what waits
            waiting = max(0.0, next_start - time.monotonic()) if self._worker is None else None
            ready, _, _ = select.select([listener, wake_up], [], [], waiting)
            if wake_up in ready:
                wake_up.recv(4096)
            if listener in ready:
                door.accept()
            if self._worker is not None and self._worker.process.poll() is not None:
                worker, self._worker = self._worker, None
                status, words = worker.process.returncode, worker.last_words()
                self.report("ended", status=status, words=words)
                if not self._orders.restart:
                    return
                pause = 0.0 if time.monotonic() - worker.started > _SHORT_LIFE else min(_LONGEST_PAUSE, 2 * pause + 0.5)
                next_start = time.monotonic() + pause
                self._log.warning("the worker ended (status %s: %s); another follows", status, words)
            if self._worker is None and time.monotonic() >= next_start:
                self._worker = _Worker(self._orders)
                self.report("started", pid=self._worker.process.pid, port=self._worker.port)
                self._log.info("a new worker has started")

    def _wait_until_it_answers(self, worker: _Worker) -> None:
        deadline = time.monotonic() + self._orders.start_timeout
        while time.monotonic() < deadline:
            if self._told_to_end:
                raise _CannotStart("it was told to end")
            if worker.process.poll() is not None:
                code = worker.process.returncode
                raise _CannotStart(f"the worker ended at start (status {code}): {worker.last_words()}")
            if worker.answers():
                return
            time.sleep(0.05)
        worker.end()
        raise _CannotStart(f"no answer within {self._orders.start_timeout:.0f} s: {worker.last_words()}")

    def _inside(self) -> socket.socket:
        """A connection to the worker, for which a new one is waited; OSError if there is none in time."""
        deadline = time.monotonic() + self._orders.start_timeout
        while True:
            worker = self._worker
            inner = socket.socket()
            if worker is not None and inner.connect_ex(("127.0.0.1", worker.port)) == 0:
                return inner
            inner.close()
            if time.monotonic() > deadline:
                raise OSError("the worker does not answer")
            time.sleep(0.1)

    def report(self, event: str, **fields: Any) -> None:
        with contextlib.suppress(OSError):  # nobody reads any more
            os.write(self._orders.reports, json.dumps({"event": event, **fields}).encode() + b"\n")


class _CannotStart(Exception):
    pass


def main(text: str) -> None:
    orders = Orders.from_json(text)
    supervisor = Supervisor(orders)
    # By its parent, and by the kernel when that is gone: of a parent with many threads once for each.
    signal.signal(signal.SIGTERM, supervisor.tell_to_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent ends it
    logging.basicConfig(format=log_format(orders.name), datefmt=LOG_TIME, level="INFO")
    try:
        supervisor.run()
    except Exception as error:
        logging.exception("stopped")
        supervisor.report("failed", why=f"{type(error).__name__}: {error}")
    finally:
        supervisor.end()
        logging.shutdown()
        os._exit(0)  # not waiting for connections, which are threads of this process


def log_format(name: str) -> str:
    """Of the lines of a log."""
    return f"%(asctime)s {name}: %(message)s"


def die_with(parent: int) -> None:
    # A request to end and not a kill, so that nothing is left behind; the worker, which has no say, is killed.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != parent:
        sys.exit(1)


def _wake_up_at_signals() -> socket.socket:
    """Readable when a child has ended, or this process was told to end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    return ours


def _quiet(name: str) -> logging.Logger:
    """Who comes is known to whoever opened the socket; only what goes wrong is worth a line."""
    logger = logging.getLogger(name)
    logger.setLevel(logging.WARNING)
    return logger


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
