"""TFF's C++ worker for one program: a child process that cannot outlive us, behind a Unix socket only we can open.

Left to itself the worker stays behind when the program ends, holds on to its standard output, and listens on every
network interface without authentication.
"""

import os
import pathlib
import shutil
import socket
import tempfile

from tffapps.engine.closed_worker import ClosedWorker, binary_path

_LONGEST_PATH = 100  # of a Unix socket, in bytes; the kernel's limit is 107


class WorkerProcess(ClosedWorker):
    """Starts when made, answers on `address`, ends with `stop`; as soon as the worker dies it is not alive.

    Where the kernel allows no private network the worker works all the same, open to the network, and says so once.
    """

    def __init__(self, start_timeout: float = 30.0) -> None:
        self._folder = _private_folder()
        try:
            path = self._folder / "worker"
            super().__init__(
                _listen(path), name="--engine worker", binary=binary_path(), allow_open=True, remove=self._folder,
                start_timeout=start_timeout,
            )  # fmt: skip
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.address = f"unix:{path}"

    def is_alive(self) -> bool:
        return super().is_alive() and _is_running(self.pid)

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

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _private_folder() -> pathlib.Path:
    """A new folder that is ours alone, with a path short enough for a Unix socket."""
    folder = tempfile.mkdtemp(prefix="tffapps-worker-")
    if len(os.fsencode(folder)) > _LONGEST_PATH - len("/worker"):
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="tffapps-worker-", dir="/tmp")
    return pathlib.Path(folder)


def _listen(path: pathlib.Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(16)
    except BaseException:
        listener.close()
        raise
    return listener


def _is_running(pid: int) -> bool:
    """Whether a process is there and has not ended; its supervisor may not have noticed its end yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
