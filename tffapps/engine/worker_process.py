"""TFF's C++ worker as a child process that cannot outlive us.

Left to itself the worker stays behind when the program ends and holds on to its standard output. Here it is started
through a few lines of Python that ask the kernel to kill it when its parent dies, whatever the parent dies of, and
its output goes to a file.
"""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import tensorflow_federated as tff

from tffapps.errors import UserError

_PR_SET_PDEATHSIG = 1
# Runs in the child: die with the parent (argv[1] is its process id), then become the worker.
_LAUNCHER = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, 9)
if os.getppid() != int(sys.argv[1]): sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def binary_path() -> pathlib.Path:
    return pathlib.Path(tff.__file__).parent / "data" / "worker_binary"


class WorkerProcess:
    """Starts when made, answers on `address`, ends with `stop`."""

    def __init__(self, start_timeout: float = 30.0) -> None:
        binary = binary_path()
        if not os.access(binary, os.X_OK):
            raise UserError(f"--engine worker: {binary} is missing or not executable; run set-up again")
        port = _free_port()
        self.address = f"127.0.0.1:{port}"
        self._log = tempfile.NamedTemporaryFile(prefix="tffapps-worker-", suffix=".log")  # noqa: SIM115
        command = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _LAUNCHER,
            str(os.getpid()),
            str(binary),
            f"--port={port}",
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, start_new_session=True
        )
        try:
            self._wait_until_listening(port, start_timeout)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def peak_memory(self) -> int:
        """Largest resident size so far, in bytes; 0 when the worker is gone."""
        try:
            status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def last_words(self) -> str:
        lines = pathlib.Path(self._log.name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def stop(self) -> None:
        if self.is_alive():
            self._process.terminate()
            try:
                self._process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._log.close()

    def _wait_until_listening(self, port: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if not self.is_alive():
                code = self._process.returncode
                raise UserError(f"--engine worker: the worker ended at start (status {code}): {self.last_words()}")
            with socket.socket() as probe:
                probe.settimeout(0.2)
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise UserError(f"--engine worker: no answer within {timeout:.0f} s: {self.last_words()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
