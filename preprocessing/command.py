"""What the commands of this package have in common: how they end, and flags."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable

from preprocessing import guard


def run(name: str, work: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Does the work of `preprocessing.<name>`; returns the exit status."""
    program = f"preprocessing.{name}"
    return guard.guarded(program, lambda: work(options), "stopped by Ctrl-C; run the same command again")


def say(name: str, text: str, status: int) -> int:
    """A line on stderr, and the status given."""
    return guard.say(f"preprocessing.{name}", text, status)


def positive(text: str) -> int:
    """A flag's value, for argparse."""
    with contextlib.suppress(ValueError):
        if int(text) > 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
