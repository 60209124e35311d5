"""A command and all that it starts: run, watched for memory, and ended, also what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import uuid

_MARK = "TFFAPPS_BENCHMARK"  # in the environment of the process and so of all that it starts, whoever adopts them
_EVERY = 0.5  # seconds between two looks at memory


class TooSlow(RuntimeError):
    """It was ended, as it took too long."""


def run(command: list[str], timeout: float, log: pathlib.Path, **environment: str) -> tuple[str, float]:
    """What it printed, and the most memory of all its processes at any look, in bytes.

    Shared pages are counted once (proportional set size): Ray's processes share much. A RuntimeError says how it
    failed.
    """
    mark = uuid.uuid4().hex
    told = {**os.environ, **environment, _MARK: mark}
    peak, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(_EVERY):
            peak = max(peak, sum(_memory(pid) for pid in _marked(mark)))

    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=told)
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            printed = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            raise TooSlow(f"took more than {timeout:.0f} s") from None
        finally:
            ended.set()
            watcher.join()
            for pid in _marked(mark):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise RuntimeError(f"ended with status {process.returncode}; see {log}")
    return printed, peak


def _marked(mark: str) -> list[int]:
    wanted, found = f"{_MARK}={mark}".encode(), []
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
