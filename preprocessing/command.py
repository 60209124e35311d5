"""What the commands of this package have in common: exit statuses, error lines, flags."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from preprocessing.files import UserError


def run(name: str, work: Callable[[argparse.Namespace], int], options: argparse.Namespace, target: Path) -> int:
    """Does the work. The exit status: the work's own, 2 for wrong use, 3 when it was stopped halfway."""
    try:
        return work(options)
    except UserError as error:
        return say(name, f"error: {error}", 2)
    except BrokenProcessPool:
        return say(name, "stopped: a process was killed, perhaps for want of memory; try fewer --workers", 3)
    except OSError as error:  # reading is never the cause: a file that cannot be read is rejected, or a UserError
        return say(name, f"stopped: cannot write {error.filename or target}: {error.strerror}", 3)
    except KeyboardInterrupt:
        return say(name, "stopped by the user; run the same command again", 3)


def say(name: str, text: str, status: int) -> int:
    """A line on stderr, and the status given."""
    print(f"preprocessing.{name}: {text}", file=sys.stderr)
    return status


def positive(text: str) -> int:
    """A flag's value, for argparse."""
    with contextlib.suppress(ValueError):
        if int(text) > 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
