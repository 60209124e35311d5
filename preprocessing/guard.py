"""How every command ends: what a user can do something about becomes one line on stderr and an exit status."""

from __future__ import annotations

import signal
import sys
import types
import typing
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool

from preprocessing.errors import RunStopped, UserError
from preprocessing.whole_files import is_full, no_space


def guarded(program: str, work: Callable[[], int | None], interrupted: str = "stopped by Ctrl-C") -> int:
    """Does the work. The exit status: its own, 2 for wrong use, 3 when it was stopped halfway, 130 for Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return work() or 0
    except UserError as error:
        return say(program, f"error: {error}", 2)
    except RunStopped as error:
        return say(program, f"stopped: {error}", 3)
    except BrokenProcessPool:
        return say(program, "stopped: a process was killed, perhaps for want of memory; try fewer --workers", 3)
    except KeyboardInterrupt:
        return say(program, interrupted, 130)
    except OSError as error:
        if is_full(error):
            return say(program, f"stopped: {no_space(error.filename)}", 3)
        if error.filename is None:  # not about a file: something to look into
            raise
        return say(program, f"error: {UserError(f'{error.filename!s:.200}: {error.strerror}')}", 2)


def say(program: str, text: str, status: int) -> int:
    """A line on stderr, and the status given."""
    print(f"{program}: {text}", file=sys.stderr)
    return status


def _terminate(number: int, frame: types.FrameType | None) -> typing.NoReturn:
    # As an exception, so that every `with` on the way out does its work (the worker, locks, half-written files).
    raise SystemExit(128 + number)
