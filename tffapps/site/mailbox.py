"""Where requests of the coordinator are taken in: done one at a time, each in a process of its own, and kept.

What was made lies in a folder of the site's own, `data/sites/<name>/<fingerprint of the data>/<id>` (`tffapps.home`),
and is found there again by the same request, also by a site that was started anew.
"""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from tffapps.data import manifest as manifests
from tffapps.engine import sandbox
from tffapps.errors import RunStopped, UserError
from tffapps.files import replacing
from tffapps.site import confinement, job
from tffapps.site.relay import Refused
from tffapps.wire import jobs
from tffapps.wire.messages import Message

_LINE = 200  # letters of the log that a coordinator can fill at once
_MOST_WAITING = 16


class Mailbox:
    """Of one site; `folder` is its worker's. Unless it is `willing`, requests are refused. Jobs are `confined`.
    `permit` is asked about each request, and raises Refused.

    `methods` are called by the relay, from its own threads; `look` does the work.
    """

    def __init__(
        self,
        folder: Path,
        table: pd.DataFrame,
        description: dict[str, Any],
        *,
        willing: bool = True,
        confined: bool = True,
        permit: Callable[[bytes], None] = lambda request: None,
    ) -> None:
        self._folder, self._willing, self._confined, self._permit = folder, willing, confined, permit
        self._log = logging.getLogger(f"tffapps.site.{description['name']}")
        self._home = confinement.home_of(description["name"]).resolve()
        self._store = self._home / description["fingerprint"]
        self._rows = _in_published_order(table, description["classes"]).to_csv(index=False).encode()
        self._images = {Path(path).resolve() for path in table.path}
        self._running: tuple[subprocess.Popen, str, str, float] | None = None
        self._waiting: dict[str, tuple[str, bytes]] = {}  # by id: the word of the asking, the request
        self._failures: dict[str, bytes] = {}
        self._lock = threading.RLock()
        (folder / jobs.MADE).mkdir()
        if willing:
            self._store.mkdir(parents=True, exist_ok=True)
            for earlier in sorted(self._store.iterdir()):
                if self._is_there(earlier):
                    self._publish(earlier.name)

    @property
    def methods(self) -> dict[str, Callable[[str, bytes], bytes]]:
        """What the site answers itself, by name."""
        return {jobs.ASK: self._asked, jobs.TELL: self._told}

    def _asked(self, caller: str, content: bytes) -> bytes:
        try:
            identity, asking, request = jobs.asked(content)
        except ValueError as error:
            raise Refused(str(error)) from None
        if not self._willing:
            why = "this site prepares nothing when asked (it was started with --no-jobs)"
            return Message({jobs.ERROR: why, jobs.ASKING: asking}).to_bytes()
        if request:
            self._permit(request)
        with self._lock:
            if request:
                if len(self._waiting) >= _MOST_WAITING:
                    raise Refused(f"{_MOST_WAITING} requests are waiting already")
                self._failures.pop(identity, None)
                self._waiting[identity] = (asking, request)
            elif self._running is None or self._running[1] != identity:
                return self._answer(identity)
        return b""

    def _answer(self, identity: str) -> bytes:
        """What there is by now; nothing while it is being done."""
        if identity in self._failures:
            return self._failures[identity]
        if identity in self._waiting or not self._is_there(self._store / identity):
            return b""
        self._publish(identity)
        return (self._store / identity / job.ANSWER).read_bytes()

    def _told(self, caller: str, content: bytes) -> bytes:
        text = content[: 4 * _LINE].decode(errors="replace")
        self._log.info("%s", "".join(letter if letter.isprintable() else "?" for letter in text)[:_LINE])
        return b""

    def look(self) -> None:
        """Does what there is to do without waiting; to be called several times a second."""
        with self._lock:
            if self._running is not None:
                self._see_to(*self._running)
            elif self._waiting:
                identity = next(iter(self._waiting))
                self._begin(identity, *self._waiting.pop(identity))

    def close(self) -> None:
        if self._running is not None:
            process = self._running[0]
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._running = None

    def _begin(self, identity: str, asking: str, request: bytes) -> None:
        try:
            self._do(identity, asking, request)
        except (OSError, UserError, RunStopped) as error:  # a full disk, say: rounds are served all the same
            self._log.warning("%s cannot be begun: %s", _name(request), error)
            why = f"the site cannot begin it ({type(error).__name__}); its log says more"
            self._failures[identity] = Message({jobs.ERROR: why, jobs.ASKING: asking}).to_bytes()

    def _do(self, identity: str, asking: str, request: bytes) -> None:
        place = self._store / identity
        if self._is_there(place):
            return
        (place / job.ANSWER).unlink(missing_ok=True)
        with replacing(place / job.REQUEST, "wb") as out:
            out.write(request)
        (place / job.FAILURE).unlink(missing_ok=True)
        program = [sys.executable, "-m", job.__name__, str(place), asking]
        variables = confinement.job_environment(self._home, place)
        allowed = confinement.of_a_job(self._folder, self._home, variables) if self._confined else None
        with tempfile.TemporaryFile() as rows:  # has the files' names, so it has none itself
            rows.write(self._rows)
            rows.seek(0)
            process = subprocess.Popen(
                sandbox.command(allowed, program, os.getpid()), stdin=rows, stdout=subprocess.DEVNULL,
                env={**os.environ, **variables},
            )  # fmt: skip
        self._log.info("asked to do %s", _name(request))
        self._running = (process, identity, asking, time.monotonic())

    def _see_to(self, process: subprocess.Popen, identity: str, asking: str, begin: float) -> None:
        status = process.poll()
        if status is None:
            return
        self._running = None
        place, seconds = self._store / identity, time.monotonic() - begin
        if (place / job.ANSWER).is_file():
            self._log.info("%s is done, %.1f s", _name((place / job.REQUEST).read_bytes()), seconds)
            return
        failure = place / job.FAILURE
        if failure.is_file():
            content = failure.read_bytes()
        else:
            content = Message({jobs.ERROR: f"it ended with status {status}", jobs.ASKING: asking}).to_bytes()
        self._log.warning("%s failed after %.1f s", _name((place / job.REQUEST).read_bytes()), seconds)
        self._failures[identity] = content
        shutil.rmtree(place, ignore_errors=True)

    def _is_there(self, place: Path) -> bool:
        """Whether a job is done and what it made is there: links may lead to a cache that was emptied, or is closed."""
        files = place / job.FILES
        if not ((place / job.ANSWER).is_file() and files.is_dir()):
            return False
        targets = [file.resolve() for file in files.iterdir()]
        return all(file.exists() and (file in self._images or self._home in file.parents) for file in targets)

    def _publish(self, identity: str) -> None:
        link = self._folder / jobs.MADE / identity
        if not link.is_symlink():
            link.symlink_to(self._store / identity / job.FILES)


def _in_published_order(table: pd.DataFrame, classes: list[str]) -> pd.DataFrame:
    """As `data.relative_manifest` has the rows."""
    parts = [table[(table.split == split) & (table.label == label)] for split in manifests.SPLITS for label in classes]
    return pd.concat(parts, ignore_index=True)


def _name(request: bytes) -> str:
    try:
        name = str(Message.from_bytes(request, "").fields.get(jobs.JOB))
    except Exception:  # whatever it is, it is only for the log
        name = "?"
    return "".join(letter if letter.isprintable() else "?" for letter in name[:40])
