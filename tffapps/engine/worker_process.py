"""TFF's C++ worker for one program: a child process that cannot outlive us, behind a Unix socket only we can open.

Left to itself the worker stays behind when the program ends, holds on to its standard output, and listens on every
network interface without authentication.
"""

import pathlib
import shutil

from tffapps.engine.closed_worker import ClosedWorker, binary_path
from tffapps.wire import unix_socket


class WorkerProcess(ClosedWorker):
    """Starts when made, answers on `address`, ends with `stop`; as soon as the worker dies it is not alive.

    Where the kernel allows no private network the worker works all the same, open to the network, and says so once.
    """

    def __init__(self, start_timeout: float = 30.0) -> None:
        self._folder = unix_socket.private_folder("tffapps-worker-")
        try:
            path = self._folder / "worker"
            super().__init__(
                unix_socket.listen(path), name="--engine worker", binary=binary_path(), allow_open=True,
                remove=[self._folder], start_timeout=start_timeout,
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


def _is_running(pid: int) -> bool:
    """Whether a process is there and has not ended; its supervisor may not have noticed its end yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
