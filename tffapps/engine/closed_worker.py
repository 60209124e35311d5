"""TFF's worker kept off the network: reached through one listening socket, and through that alone."""

import functools
import importlib.util
import json
import os
import pathlib
import select
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO, Any

from tffapps.engine.sandbox import Sandbox
from tffapps.engine.supervisor import Orders
from tffapps.errors import UserError

_PACKAGES = pathlib.Path(__file__).resolve().parents[2]
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tffapps.engine import supervisor; supervisor.main(sys.argv[2])"
)
_OPEN = "TFF's worker listens on every network interface and lets anyone in"
_PATIENCE = 10.0  # seconds beyond a supervisor's own deadline


def binary_path() -> pathlib.Path:
    """TFF's worker, found without importing TFF."""
    spec = importlib.util.find_spec("tensorflow_federated")
    if spec is None or spec.origin is None:
        raise UserError("tensorflow-federated is not installed; run set-up again")
    return pathlib.Path(spec.origin).parent / "data" / "worker_binary"


class ClosedWorker:
    """Starts when made, is reached through `listener`, and ends with `stop` or with this process.

    `name` begins its messages. Where the kernel allows no private network it refuses to start, or, with `allow_open`,
    says so and goes on. With `restart` a worker that dies is followed by another; without, everything ends. The
    listener, a Unix socket that nobody else can open, is closed here: it lives on in the supervisor.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        name: str,
        binary: pathlib.Path | None = None,
        folder: pathlib.Path | None = None,
        restart: bool = False,
        allow_open: bool = False,
        log: IO[Any] | None = None,
        remove: Sequence[pathlib.Path] = (),
        sandbox: Sandbox | None = None,
        start_timeout: float = 30.0,
    ) -> None:
        """`folder` is where it resolves relative paths, `remove` some to remove at the end, `log` a file for lines."""
        binary = binary or binary_path()
        if not os.access(binary, os.X_OK):
            raise UserError(f"{name}: {binary} is missing or not executable; run set-up again")
        self._name, self._log = name, log
        self._pid = self.port = 0
        self._unread, self._words = b"", "no output"
        self._reports = -1
        self._process: subprocess.Popen[bytes]
        orders: dict[str, Any] = {
            "parent": os.getpid(), "listener": listener.fileno(), "name": name, "binary": str(binary),
            "folder": str(folder or pathlib.Path.cwd()), "start_timeout": start_timeout, "restart": restart,
            "sandbox": sandbox, "remove": [str(each) for each in remove],
        }  # fmt: skip
        with listener:
            self.closed = True
            report = self._start(orders)
            if report["event"] == "forbidden":
                why = f"this kernel allows no private network ({report['why']})"
                if not allow_open:
                    raise UserError(f"{name}: {why}, and without one {_OPEN}; allow namespaces, or --allow-open-worker")
                _warn(f"{name}: warning: {_OPEN}: {why}")
                self.closed = False
                report = self._start(orders)
        if report["event"] != "ready":
            self.stop()
            raise UserError(f"{name}: {report['why']}")

    @property
    def pid(self) -> int:
        """The worker's process id; the latest one's."""
        self._read()
        return self._pid

    @property
    def supervisor_pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end of the supervisor."""
        return self._process.wait(timeout)

    def stop(self) -> None:
        self._end_supervisor()

    def last_words(self) -> str:
        """What the last worker said before it died."""
        self._read()
        return self._words

    def _end_supervisor(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        if self._reports >= 0:
            self._read()
            os.close(self._reports)
            self._reports = -1

    def _start(self, orders: dict[str, Any]) -> dict[str, Any]:
        """Starts a supervisor and returns its first report."""
        self._reports, theirs = os.pipe()
        text = Orders(**orders, reports=theirs, closed=self.closed).to_json()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_PACKAGES), text],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log or subprocess.DEVNULL,
                pass_fds=(orders["listener"], theirs), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(theirs)
        try:
            report = self._first_report(orders["start_timeout"] + _PATIENCE)
        except BaseException:
            self._end_supervisor()
            raise
        if report["event"] == "forbidden":
            self._end_supervisor()
        return report

    def _first_report(self, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            status = self._process.poll()
            reports = self._read(wait=0.5)
            if reports:
                return reports[0]
            if status is not None:
                return {"event": "failed", "why": f"its supervisor ended at start (status {status})"}
        return {"event": "failed", "why": f"its supervisor gave no sign within {timeout:.0f} s"}

    def _read(self, wait: float = 0.0) -> list[dict[str, Any]]:
        """Takes in the reports that are there."""
        while self._reports >= 0 and select.select([self._reports], [], [], wait)[0]:
            piece = os.read(self._reports, 2**16)
            if not piece:
                break
            self._unread += piece
            wait = 0.0
        *lines, self._unread = self._unread.split(b"\n")
        reports = [json.loads(line) for line in lines]
        for report in reports:
            if report["event"] in ("ready", "started"):
                self._pid, self.port = report["pid"], report["port"]
            elif report["event"] == "ended":
                self._words = report["words"]
        return reports


@functools.cache
def _warn(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
