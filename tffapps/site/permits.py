"""What the policy says of work as a whole: which applications, methods and jobs, and how many rounds.

What a computation is for is told by the coordinator before it comes (`wire.jobs.ABOUT`); the site holds it to that, and
cannot see whether it is true. Rounds are counted by the site itself: every update of its images counts, also those that
the log has of today and of the same run, so a site that is started anew goes on counting.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tffapps.site.log import Head
from tffapps.site.policy import Policy
from tffapps.site.relay import COMPUTE, Refused
from tffapps.wire import jobs
from tffapps.wire.messages import Message

_UPDATE = "update"  # how the gate begins what it says of one
_ABOUT = jobs.ABOUT.rpartition("/")[2]


class Permits:
    """`lines` are those of the log so far, `head` says where it ends now."""

    def __init__(self, policy: Policy, lines: Iterable[Mapping[str, Any]], head: Callable[[], Head]) -> None:
        self._policy, self._head, self._lock = policy, head, threading.Lock()
        self._about: dict[str, jobs.About] = {}  # by caller
        self._of_a_run: collections.Counter[tuple[str, str]] = collections.Counter()
        self._a_day: collections.Counter[str] = collections.Counter()
        runs: dict[str, str] = {}
        for line in lines:
            if line["decision"] != "passed":
                continue
            if line["asked"] == _ABOUT:
                runs[line["who"]] = line["what"].partition(": ")[2]
            elif line["asked"] == COMPUTE and line["what"].startswith(_UPDATE):
                self._of_a_run[line["who"], runs.get(line["who"], "")] += 1
                self._a_day[line["time"][:10]] += 1

    @property
    def methods(self) -> dict[str, Callable[[str, bytes], bytes]]:
        """What the site answers itself, by name."""
        return {jobs.ABOUT: self._told, jobs.HEAD: lambda caller, content: str(self._head()).encode()}

    def _told(self, caller: str, content: bytes) -> bytes:
        try:
            about = jobs.About.from_bytes(content)
        except ValueError as error:
            raise Refused(str(error)) from None
        self._check("the application", about.application, self._policy.applications)
        self._check("the method", about.method, self._policy.methods)
        with self._lock:
            self._about[caller] = about
        return b""

    def compute(self, caller: str, images: int, update: bool) -> None:
        """Refused if this caller may not have something computed of so many images; counts it if it is an update."""
        about = self._about.get(caller)
        if about is None and not (self._policy.applications is None and self._policy.methods is None):
            raise Refused("it was not said what it is for, and the site's policy names what it allows")
        if not update:
            return
        run, today = (caller, about.run if about else ""), time.strftime("%Y-%m-%d", time.gmtime())
        with self._lock:
            for done, most, what in (
                (self._of_a_run[run], self._policy.of_a_run, "of this run"),
                (self._a_day[today], self._policy.a_day, "today"),
            ):
                if done >= most:
                    raise Refused(f"{done} rounds {what} are done, as many as the site's policy allows")
            self._of_a_run[run] += 1
            self._a_day[today] += 1

    def job(self, content: bytes) -> None:
        """Refused if the policy does not allow this request (`wire.jobs.ASK`)."""
        try:
            request = Message.from_bytes(content, "the coordinator")
        except Exception:
            raise Refused("a request that cannot be read") from None
        name = str(request.fields.get(jobs.JOB))
        self._check("the application", name.partition("/")[0], self._policy.applications)
        self._check("the job", name, self._policy.jobs)
        rows = request.arrays.get("rows")
        if rows is not None and rows.size < self._policy.least_images:
            least = self._policy.least_images
            raise Refused(f"{name:.60} of {rows.size} images; the site's policy asks for {least} at least")

    def _check(self, what: str, name: str, allowed: frozenset[str] | None) -> None:
        if allowed is not None and name not in allowed:
            listed = ", ".join(sorted(allowed)) or "none"
            raise Refused(f"{what} {name!r:.60}; the site's policy allows {listed}")
