"""How often somebody may do something: so many at once, and one more each time a while has passed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

# How many at once, and seconds until there is one more.
PER_VISITOR: Mapping[str, tuple[int, float]] = {
    "enter": (8, 15.0), "ask": (15, 4.0), "request": (5, 300.0), "enrol": (4, 60.0), "change": (30, 2.0),
}  # fmt: skip
PER_SERVER: Mapping[str, tuple[int, float]] = {"enter": (60, 1.0), "ask": (60, 0.5), "enrol": (30, 10.0)}
_REMEMBERED = 10_000


class Limits:
    def __init__(
        self,
        visitor: Mapping[str, tuple[int, float]] = PER_VISITOR,
        server: Mapping[str, tuple[int, float]] = PER_SERVER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._visitor, self._server, self._clock = visitor, server, clock
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()  # how many, when that was
        self._lock = threading.Lock()

    def wait(self, what: str, who: str) -> float:
        """0, and it counts; or the seconds until it may be tried again, and it does not."""
        now = self._clock()
        with self._lock:
            wanted = [((what, who), self._visitor[what])]
            wanted += [((what, ""), self._server[what])] if what in self._server else []
            left = [self._now(key, *rate, now) for key, rate in wanted]
            waits = [(1 - have) * each for have, (_, (_, each)) in zip(left, wanted) if have < 1]
            if waits:
                return max(waits)
            for have, (key, _) in zip(left, wanted):
                self._left[key] = (have - 1, now)
                self._left.move_to_end(key)
            while len(self._left) > _REMEMBERED:
                self._left.popitem(last=False)
        return 0.0

    def _now(self, key: tuple[str, str], most: int, each: float, now: float) -> float:
        have, then = self._left.get(key, (float(most), now))
        return min(float(most), have + (now - then) / each)
