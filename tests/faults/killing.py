"""A command that is killed in the middle of its work, in a process of its own.

The processes are forked from one that has TensorFlow imported already, which saves several seconds each.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_LOG = "killed.log"


@functools.cache
def _context() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.preloaded"])
    return context


def killed(app: str, arguments: Sequence[str], place: Path, where: str, number: int = 1) -> None:
    """Runs a command in a folder; it is killed as it calls a function (`module:name`) for the number-th time."""
    process = _context().Process(target=_run, args=(app, list(arguments), str(place), where, number))
    process.start()
    process.join(300)
    alive = process.is_alive()
    if alive:
        process.kill()
    said = (place / _LOG).read_text(errors="replace")[-2000:]
    assert not alive and process.exitcode == -signal.SIGKILL, f"{where}: {process.exitcode}\n{said}"


def _run(app: str, arguments: list[str], place: str, where: str, number: int) -> None:
    os.chdir(place)
    log = os.open(_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    from tffapps import cli

    _kill_at(where, number)
    sys.exit(cli.main(importlib.import_module(f"tffapps.{app}").APP, arguments))


def _kill_at(where: str, number: int) -> None:
    module, _, path = where.partition(":")
    *parents, name = path.split(".")
    owner: Any = functools.reduce(getattr, parents, importlib.import_module(module))
    old, calls = getattr(owner, name), itertools.count(1)

    def new(*arguments: Any, **options: Any) -> Any:
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return old(*arguments, **options)

    setattr(owner, name, new)
