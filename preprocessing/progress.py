"""How far a long piece of work has come: a bar on a terminal, now and then a line in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
_SECONDS_BETWEEN_LINES = 10.0


def track(items: Iterable[T], total: int, what: str, show: bool = True, unit: str = "image") -> Iterator[T]:
    """Yields the items and shows on stderr how many of them have come."""
    if not show:
        yield from items
    elif sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(items, total=total, desc=what, unit=unit, leave=False)
    else:
        last = time.monotonic()
        for count, item in enumerate(items, 1):
            yield item
            if count == total or time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                print(f"{what}: {count}/{total}", file=sys.stderr, flush=True)
