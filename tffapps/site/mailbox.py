"""Where requests of the coordinator are taken in: done one at a time, each in a process of its own, and kept.

What was made lies in a folder of the site's own, `data/sites/<name>/<fingerprint of the data>/<id>` (`tffapps.home`),
and is found there again by the same request, also by a site that was started anew.
"""

import contextlib
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from tffapps.data import manifest as manifests
from tffapps.errors import RunStopped, UserError
from tffapps.files import as_name, replacing
from tffapps.home import sites_folder
from tffapps.site import job
from tffapps.wire import jobs
from tffapps.wire.messages import Message

_PROJECT = Path(__file__).resolve().parents[2]
_IDENTITY = re.compile(r"[0-9a-f]{20}")
_LINE = 200  # letters of the log that a coordinator can fill at once
_LINES = 50  # of which so many are taken in at a time


class Mailbox:
    """Of one site; `folder` is its worker's. Unless it is `willing`, requests are refused."""

    def __init__(self, folder: Path, table: pd.DataFrame, description: dict[str, Any], *, willing: bool = True) -> None:
        self._folder, self._willing = folder, willing
        self._log = logging.getLogger(f"tffapps.site.{description['name']}")
        self._store = sites_folder().absolute() / as_name(description["name"]) / description["fingerprint"]
        self._running: tuple[subprocess.Popen, str, str, float] | None = None
        for name in (jobs.ASKED, jobs.ANSWERS, jobs.MADE, jobs.TOLD):
            (folder / name).mkdir()
        if not willing:
            return
        with replacing(self._store / job.ROWS) as out:
            _in_published_order(table, description["classes"]).to_csv(out, index=False)
        for earlier in sorted(self._store.iterdir()):
            if _is_there(earlier):
                self._publish(earlier.name)

    def look(self) -> None:
        """Does what there is to do without waiting; to be called several times a second."""
        try:
            self._take_notes()
            if self._running is not None:
                self._see_to(*self._running)
            else:
                files = sorted((self._folder / jobs.ASKED).glob(f"*{jobs.READY}"), key=_age)
                waiting = [file for file in files if file.read_bytes().endswith(b"\n")]  # else it is not all there
                if waiting:
                    self._begin(waiting[0])
        except (OSError, UserError, RunStopped) as error:  # a full disk, say: rounds are served all the same
            self._log.warning("a request could not be taken in: %s", error)

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

    def _begin(self, ready: Path) -> None:
        identity = ready.name[: -len(jobs.READY)]
        if not _IDENTITY.fullmatch(identity):
            ready.unlink()
            return self._log.warning("a request with a name that cannot be is passed over")
        asked = ready.with_name(identity)
        try:
            asking = "".join(letter for letter in ready.read_text(errors="replace")[:40] if letter.isalnum())
            content = asked.read_bytes()
        except OSError:
            content, asking = b"", ""
        for file in (ready, asked):
            with contextlib.suppress(OSError):
                file.unlink()
        if not self._willing:
            why = "this site prepares nothing when asked (it was started with --no-jobs)"
            return self._answer(identity, Message({jobs.ERROR: why, jobs.ASKING: asking}).to_bytes())
        try:
            self._do(identity, asking, content)
        except (OSError, UserError, RunStopped) as error:  # a full disk, say; else the coordinator would wait for ever
            self._log.warning("%s cannot be begun: %s", _name(content), error)
            why = f"the site cannot begin it ({type(error).__name__}); its log says more"
            self._answer(identity, Message({jobs.ERROR: why, jobs.ASKING: asking}).to_bytes())

    def _do(self, identity: str, asking: str, content: bytes) -> None:
        place = self._store / identity
        if _is_there(place):
            return self._publish(identity)
        (place / job.ANSWER).unlink(missing_ok=True)
        with replacing(place / job.REQUEST, "wb") as out:
            out.write(content)
        (place / job.FAILURE).unlink(missing_ok=True)
        search = os.pathsep.join(filter(None, (str(_PROJECT), os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [sys.executable, "-m", job.__name__, str(place), asking, str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )  # fmt: skip
        self._log.info("asked to do %s", _name(content))
        self._running = (process, identity, asking, time.monotonic())

    def _see_to(self, process: subprocess.Popen, identity: str, asking: str, begin: float) -> None:
        status = process.poll()
        if status is None:
            return
        self._running = None
        place, seconds = self._store / identity, time.monotonic() - begin
        if (place / job.ANSWER).is_file():
            self._log.info("%s is done, %.1f s", _name((place / job.REQUEST).read_bytes()), seconds)
            return self._publish(identity)
        failure = place / job.FAILURE
        if failure.is_file():
            content = failure.read_bytes()
        else:
            content = Message({jobs.ERROR: f"it ended with status {status}", jobs.ASKING: asking}).to_bytes()
        self._log.warning("%s failed after %.1f s", _name((place / job.REQUEST).read_bytes()), seconds)
        self._answer(identity, content)
        shutil.rmtree(place, ignore_errors=True)

    def _publish(self, identity: str) -> None:
        link = self._folder / jobs.MADE / identity
        if not link.is_symlink():
            link.symlink_to(self._store / identity / job.FILES)
        self._answer(identity, (self._store / identity / job.ANSWER).read_bytes())

    def _answer(self, identity: str, content: bytes) -> None:
        with replacing(self._folder / jobs.ANSWERS / identity, "wb") as out:
            out.write(content)

    def _take_notes(self) -> None:
        for note in sorted((self._folder / jobs.TOLD).iterdir())[:_LINES]:
            with contextlib.suppress(OSError):
                text = note.read_text(errors="replace")
                if text.endswith("\n"):  # else it is not all there
                    self._log.info("%s", "".join(x if x.isprintable() else "?" for x in text[:-1])[:_LINE])
                    note.unlink()


def _is_there(place: Path) -> bool:
    """Whether a job is done and the files it made are there: they may be links into a cache that was emptied."""
    files = place / job.FILES
    return (place / job.ANSWER).is_file() and files.is_dir() and all(file.exists() for file in files.iterdir())


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


def _age(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
