"""A disk of a few kB, and commands on it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tffapps import cli


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Callable[[int], None]]:
    """Mounts one there; gives a function that says how many kB it has. Skips the test where that is not allowed."""

    def mount(*options: str) -> None:
        done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")

    if shutil.which("mount") is None:
        pytest.skip("no small disk can be mounted here: there is no mount")
    folder.mkdir()
    mount("-o", "size=8k")
    try:
        yield lambda size: mount("-o", f"remount,size={size}k")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def attempt(app: cli.App, arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says last about a full disk, "" if it came to its end."""
    capsys.readouterr()
    status = cli.main(app, arguments)
    errors = capsys.readouterr().err
    assert "Traceback" not in errors
    if status == 0:
        return ""
    last = errors.strip().splitlines()[-1]
    assert status == 3 and last.startswith(f"tffapps.{app.name}: stopped: no space left to write"), errors
    return last
