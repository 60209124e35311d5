"""What tests of closed workers share."""

from __future__ import annotations

import functools
import pathlib
import subprocess
import sys
import time

import pytest

from tffapps.engine import closed_worker

# A supervisor on a kernel that allows no private networks.
FORBIDDEN = (
    "import sys; sys.path.insert(0, sys.argv[1])\n"
    "from tffapps.engine import namespace, supervisor\n"
    "def refuse(): raise PermissionError(1, 'Operation not permitted')\n"
    "namespace.enter = refuse\n"
    "supervisor.main(sys.argv[2])"
)


@functools.cache
def _refusal() -> str:
    code = "import sys; sys.path.insert(0, sys.argv[1]); from tffapps.engine import namespace; namespace.enter()"
    root = str(pathlib.Path(closed_worker.__file__).resolve().parents[2])
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def need_namespaces() -> None:
    """Skips the test where the kernel allows no private networks."""
    if _refusal():
        pytest.skip(f"no private networks here: {_refusal()}")


def is_running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process is gone within some seconds."""
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def listening_ports(pid: str | int = "self") -> set[int]:
    """The TCP ports that somebody listens on in the network that a process is in."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":
                ports.add(int(local.rpartition(":")[2], 16))
    return ports
