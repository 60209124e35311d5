"""What a run's files say, for the page. They may be anybody's: read with bounds, and what is odd is left out.

A run writes its files whole (`files.replacing`), so that one is never seen half-written.
"""

import csv
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

# Columns of rounds.csv that are no metric.
_OTHERS = {
    "round", "examples", "clients", "left_out", "bytes_down", "bytes_up", "bytes_state", "seconds",
    "training_seconds", "peak_memory_mb", "statistics_clients", "epsilon",
}  # fmt: skip
TRAINING_LOSS = "training_loss"
_MOST_BYTES = 2**24  # of a file: a run of ten thousand rounds has less
_MOST_METRICS = 40
_LONGEST = 300  # characters of a text
_LAST = 5  # rounds whose mean time says how long the others take


@dataclasses.dataclass(frozen=True)
class Settings:
    """What settings.json says."""

    app: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    rounds: int | None = None  # that were asked for


@dataclasses.dataclass(frozen=True)
class Rounds:
    """What rounds.csv says."""

    numbers: tuple[int, ...] = ()
    metrics: tuple[tuple[str, tuple[float | None, ...]], ...] = ()  # name → a value each round; training loss last
    round_seconds: float | None = None  # a round's, of late
    seconds: float = 0.0  # of all rounds
    clients: int | None = None  # that took part in the last round
    left_out: str = ""  # who was left out of the last round, and why
    rounds_with_left_out: int = 0
    bytes_down: float = 0.0
    bytes_up: float = 0.0
    peak_memory_mb: float | None = None
    epsilon: float | None = None  # spent, where noise is added

    @property
    def done(self) -> int:
        return self.numbers[-1] if self.numbers else 0


class Unreadable(Exception):
    """A file is there and cannot be understood."""


def read_settings(path: Path) -> Settings:
    """Raises `Unreadable`."""
    try:
        content = json.loads(_bounded(path))
    except (ValueError, RecursionError):
        raise Unreadable(f"{path.name} is no JSON") from None
    if not isinstance(content, dict):
        raise Unreadable(f"{path.name} is no settings")
    labels, key = content.get("labels"), content.get("key")
    rounds = key.get("rounds") if isinstance(key, dict) else None
    shown = {str(name): value for name, value in labels.items()} if isinstance(labels, dict) else {}
    return Settings(
        app=_text(content.get("app", "")),
        labels=tuple((_text(name), _text(value)) for name, value in list(shown.items())[:_MOST_METRICS]),
        rounds=rounds if type(rounds) is int and 0 < rounds < 10**9 else None,
    )


def read_rounds(path: Path) -> Rounds:
    """Raises `Unreadable`."""
    try:
        rows = list(csv.DictReader(_bounded(path).splitlines()))
    except csv.Error:
        raise Unreadable(f"{path.name} is no table") from None
    numbers = [_number(row.get("round")) for row in rows]
    if any(number is None or not 0 < number < 10**9 for number in numbers):
        raise Unreadable(f"{path.name} has rows without a round")
    if not rows:
        return Rounds()
    columns = [name for name in rows[0] if name and name not in _OTHERS and name != TRAINING_LOSS]
    columns = columns[:_MOST_METRICS] + [name for name in (TRAINING_LOSS,) if name in rows[0]]
    series = {name: tuple(_number(row.get(name)) for row in rows) for name in columns}
    seconds = [each for each in (_number(row.get("seconds")) for row in rows) if each is not None]
    # The first round of a process builds everything, unless there is no other.
    late = seconds[1:][-_LAST:] or seconds
    last = rows[-1]
    clients = _number(last.get("clients"))
    return Rounds(
        numbers=tuple(int(number) for number in numbers if number is not None),
        metrics=tuple((_text(name), values) for name, values in series.items() if any(v is not None for v in values)),
        round_seconds=sum(late) / len(late) if late else None,
        seconds=sum(seconds),
        clients=None if clients is None else int(clients),
        left_out=_text(last.get("left_out") or ""),
        rounds_with_left_out=sum(1 for row in rows if row.get("left_out")),
        bytes_down=sum(_number(row.get("bytes_down")) or 0.0 for row in rows),
        bytes_up=sum(_number(row.get("bytes_up")) or 0.0 for row in rows),
        peak_memory_mb=max((_number(row.get("peak_memory_mb")) or 0.0 for row in rows), default=None),
        epsilon=_number(last.get("epsilon")),
    )


def _bounded(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            contents = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be opened: {error.strerror}") from None
    if len(contents) > _MOST_BYTES:
        raise Unreadable(f"{path.name} is larger than {_MOST_BYTES} bytes")
    try:
        return contents.decode()
    except UnicodeDecodeError:
        raise Unreadable(f"{path.name} is no text") from None


def _number(text: Any) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _text(value: Any) -> str:
    text = str(value).encode(errors="replace").decode()  # JSON can hold half a character
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
