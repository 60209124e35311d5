"""About how long a command takes on this machine, and what it writes: known before it starts, within a factor of two.

A system's `cost.py` counts (`costs(flags, pool)`): how often an image passes through which network, forward or in a
training step, and which files are written. How long one pass takes is measured here, a few calls of each network. What
reading, scoring and drawing take is left out, and so is what an earlier start of the same command has done already.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tffapps.app import App, Common
from tffapps.errors import UserError
from tffapps.settings import Flags

_ENOUGH = 1.0  # seconds of measuring one kind of pass
_PLENTY = 15.0  # seconds of a first call, tracing included, that is taken for the measurement itself
_CALLS = 20
_BEGIN = 15.0  # seconds in which TensorFlow and TFF are imported and the first round is built


class Steps(NamedTuple):
    """A network, ready: each call does something to so many images."""

    images: int
    train: Callable[[], Any] | None = None
    infer: Callable[[], Any] | None = None
    weights: int = 0  # bytes of what a checkpoint holds


@dataclasses.dataclass(frozen=True)
class Work:
    """What is done to an image. Two of the same name are the same, and measured once."""

    name: str
    make: Callable[[], Steps] = dataclasses.field(compare=False)


class Rate(NamedTuple):
    """What was measured of a work."""

    training: float  # seconds an image
    inference: float
    weights: int  # bytes
    start: float = 0.0  # seconds until it is built and traced


@dataclasses.dataclass(frozen=True)
class Cost:
    """Part of a command."""

    what: str  # in the words of the line that is printed; parts of the same name are added
    work: Work
    training: float = 0  # passes of an image in a training step
    inference: float = 0  # passes forward
    checkpoints: float = 0  # files with the work's weights that stay
    bytes: float = 0  # of other files


class Total(NamedTuple):
    seconds: dict[str, float]  # by part
    bytes: float


def total(costs: Iterable[Cost], rate: Callable[[Work, bool, bool], Rate]) -> Total:
    """All of it; `rate` measures a work, its training step and its pass forward where they are needed."""
    costs = list(costs)
    rates = {
        work: rate(
            work,
            any(cost.training for cost in costs if cost.work == work),
            any(cost.inference for cost in costs if cost.work == work),
        )
        for work in dict.fromkeys(cost.work for cost in costs)
    }
    seconds: dict[str, float] = {}
    started = set()
    for cost in costs:
        known = rates[cost.work]
        spent = cost.training * known.training + cost.inference * known.inference
        if cost.work not in started and spent:
            spent += known.start
            started.add(cost.work)
        seconds[cost.what] = seconds.get(cost.what, 0.0) + spent
    return Total(seconds, sum(cost.checkpoints * rates[cost.work].weights + cost.bytes for cost in costs))


def described(found: Total) -> str:
    """`estimate: about 41 h on this machine (style transfer 30 h, classifiers 11 h), 3.2 GB; …`"""
    parts = {what: seconds for what, seconds in found.seconds.items() if seconds > 0}
    longest = sorted(parts, key=lambda what: -parts[what])
    shares = ", ".join(f"{what} {_duration(parts[what])}" for what in longest)
    inside = f" ({shares})" if len(parts) > 1 else ""
    spent = _duration(_BEGIN + sum(parts.values()))
    return f"estimate: about {spent} on this machine{inside}, {_size(found.bytes)}; goes on where it was stopped"


def line(app: App, flags: Flags) -> str:
    """The estimate of a command."""
    if flags[Common].across_sites:
        raise UserError("--estimate: the images are at the sites, whose machines do the work; estimate it there")
    if not app.has("cost"):
        raise UserError(f"--estimate: tffapps.{app.name} does not say what it costs")
    pool = app.part("data").look(flags)
    return described(total(app.part("cost").costs(flags, pool), measured))


def from_another_process(app: App, arguments: Sequence[str]) -> str:
    """The same, as a process of its own finds it: networks that were measured would stay in the memory of this one."""
    command = [sys.executable, "-m", "tffapps", app.name, *arguments, "--estimate"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    return lines[-1] if done.returncode == 0 and lines else "estimate: none, it could not be made here"


def measured(work: Work, training: bool = True, inference: bool = True) -> Rate:
    """On this machine, now."""
    begin = time.perf_counter()
    steps = work.make()
    built = time.perf_counter() - begin
    times, start = [], built
    for call in (steps.train if training else None, steps.infer if inference else None):
        first, usual = _timed(call) if call else (0.0, 0.0)
        times.append(usual / steps.images)
        start += max(0.0, first - usual)
    return Rate(times[0], times[1], steps.weights, start)


def _timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of the first call, which traces, and of those after it."""
    begin = time.perf_counter()
    call()
    first = time.perf_counter() - begin
    if first > _PLENTY:
        return first, first
    begin, calls = time.perf_counter(), 0
    while calls < _CALLS and (calls == 0 or time.perf_counter() - begin < _ENOUGH):
        call()
        calls += 1
    return first, (time.perf_counter() - begin) / calls


def _duration(seconds: float) -> str:
    for unit, length, least in (("days", 86400, 3.0), ("h", 3600, 1.5), ("min", 60, 1.5)):
        if seconds >= least * length:
            return f"{_rounded(seconds / length)} {unit}"
    return f"{max(1, round(seconds))} s"


def _size(count: float) -> str:
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= length:
            return f"{_rounded(count / length)} {unit}"
    return "less than 1 MB"


def _rounded(value: float) -> str:
    """Two digits: no more is meant."""
    return f"{value:.1f}" if value < 9.95 else f"{float(f'{value:.2g}'):.0f}"
