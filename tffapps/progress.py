"""A bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from preprocessing.progress import track

__all__ = ["Progress", "track"]


class Progress:
    """`with Progress("fedavg seed 0", 10) as progress: progress.step("accuracy 0.81")`"""

    def __init__(self, name: str, total: int, done: int = 0) -> None:
        self._name, self._total, self._done, self._first = name, total, done, done
        self._begin = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            import tqdm

            self._bar = tqdm.tqdm(total=total, initial=done, desc=name, unit="round", dynamic_ncols=True)

    def step(self, note: str) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.update()
            return
        took = time.monotonic() - self._begin
        left = took / (self._done - self._first) * (self._total - self._done)
        print(
            f"{self._name}: {self._done}/{self._total}  {note}  {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()
