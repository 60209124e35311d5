"""Every run below a folder as the page shows it. Only files that have changed are read again."""

import dataclasses
import hashlib
import math
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from tffapps.watch import locks
from tffapps.watch.record import Rounds, Settings, Unreadable, read_rounds, read_settings

RUNNING, FINISHED, STOPPED = "running", "finished", "stopped"
_RUNS = "runs"  # the folder that holds run folders
_DEEPEST = 4  # of such a folder below the one given: results/real/plfl/runs
_POINTS = 60  # of a curve in the list; all of them are in `details`
_SHORTEST = 0.5  # seconds between two looks at the disk, however many pages ask

# The metric that a run is shown by, the first of these that it has; else its first.
_HEADLINES = ("accuracy", "macro_f1", "auroc", "map", "validation_loss")
T = TypeVar("T")


class _Kept(Generic[T]):
    """What was read of a file, until the file is another one."""

    def __init__(self, path: Path, read: Callable[[Path], T], missing: T) -> None:
        self._path, self._read, self._missing = path, read, missing
        self._stamp: tuple[int, int, int] | None = None
        self.value, self.problem, self.modified = missing, "", 0.0

    def refresh(self) -> bool:
        """Reads the file if it has changed; whether it has."""
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            changed = self._stamp is not None
            self._stamp, self.value, self.problem, self.modified = None, self._missing, "", 0.0
            return changed
        stamp = found.st_mtime_ns, found.st_size, found.st_ino
        if stamp == self._stamp:
            return False
        self._stamp, self.modified = stamp, found.st_mtime
        try:
            if not stat.S_ISREG(found.st_mode):  # a pipe would never end
                raise Unreadable(f"{self._path.name} is no file")
            self.value, self.problem = self._read(self._path), ""
        except Unreadable as error:
            self.value, self.problem = self._missing, str(error)
        return True


class _Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = _Kept(folder / "settings.json", read_settings, Settings())
        self.rounds = _Kept(folder / "rounds.csv", read_rounds, Rounds())
        self.state = ""
        self.version = 0  # of the last change

    def refresh(self, held: Callable[[Path], bool], version: int) -> None:
        changed = self.settings.refresh(), self.rounds.refresh()
        state = self._state(held)
        if any(changed) or state != self.state:
            self.state, self.version = state, version

    def _state(self, held: Callable[[Path], bool]) -> str:
        if (self.folder / "finished.json").exists():
            return FINISHED
        return RUNNING if held(self.folder / ".lock") else STOPPED


class Runs:
    """All runs below a folder, for any number of threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs: dict[str, _Run] = {}  # by a name that any URL can hold
        self._lock = threading.Lock()
        self._version, self._looked = 0, -math.inf
        self._began = time.time_ns() // 10**6  # JavaScript's whole numbers end at 2^53
        self._names_version = 0  # of the last change in which runs there are

    def listing(self, since: int = 0) -> dict[str, Any]:
        """For JSON: the runs that have changed after a version, and which runs there are if that has changed."""
        with self._lock:
            self._refresh()
            changed = {name: _summary(run, self._root) for name, run in self._runs.items() if run.version > since}
            names = list(self._runs) if self._names_version > since else None
            return {
                "folder": _plain(str(self._root)), "began": self._began, "version": self._version, "now": time.time(),
                "runs": changed, "names": names,
            }  # fmt: skip

    def details(self, name: str) -> dict[str, Any] | None:
        """For JSON: all curves of one run; None if there is none of that name."""
        with self._lock:
            run = self._runs.get(name)
            if run is None:
                return None
            rounds = run.rounds.value
            return {"rounds": rounds.numbers, "metrics": dict(rounds.metrics)}

    def _refresh(self) -> None:
        if time.monotonic() - self._looked < _SHORTEST:
            return
        self._version += 1
        held = locks.held()
        known = {hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]: folder for folder in _folders(self._root)}
        if set(known) != set(self._runs):
            self._names_version = self._version
        self._runs = {name: self._runs.get(name) or _Run(folder) for name, folder in known.items()}
        for run in self._runs.values():
            run.refresh(held, self._version)
        self._looked = time.monotonic()


def _folders(root: Path) -> Iterator[Path]:
    """The folders of runs below a folder: <…>/runs/<run>. Links are not followed."""
    waiting = [(root, 0)]
    while waiting:
        folder, depth = waiting.pop()
        below = _subfolders(folder)
        if folder.name == _RUNS:
            yield from (each for each in below if (each / "settings.json").exists())
        elif depth < _DEEPEST:
            waiting += [(each, depth + 1) for each in below]


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:  # removed meanwhile, or not ours to read
        return []


def _summary(run: _Run, root: Path) -> dict[str, Any]:
    settings, rounds = run.settings.value, run.rounds.value
    headline = _headline(rounds)
    values = dict(rounds.metrics).get(headline, ())
    left = None
    if run.state == RUNNING and settings.rounds and rounds.round_seconds is not None:
        left = rounds.round_seconds * max(settings.rounds - rounds.done, 0)
    about = {field: getattr(rounds, field) for field in _SHOWN}
    place = run.folder.parent.relative_to(root).as_posix().removesuffix(_RUNS).strip("./")
    return {
        "name": _plain(run.folder.name), "place": _plain(place), "state": run.state,
        "app": settings.app, "labels": dict(settings.labels),
        "done": rounds.done, "of": settings.rounds, "modified": run.rounds.modified or run.settings.modified,
        "seconds_left": left, "headline": headline, "curve": thinned(values), "last": values[-1] if values else None,
        "problems": [text for text in (run.settings.problem, run.rounds.problem) if text], **about,
    }  # fmt: skip


_SHOWN = [field.name for field in dataclasses.fields(Rounds) if field.name not in ("numbers", "metrics")]


def _plain(name: str) -> str:
    """A file's name as text: bytes that are none are shown as such. A browser may not survive half a character."""
    return os.fsencode(name).decode(errors="replace")


def _headline(rounds: Rounds) -> str:
    names = [name for name, _ in rounds.metrics]
    return next((name for name in (*_HEADLINES, *names) if name in names), "")


def thinned(values: tuple[float | None, ...], most: int = _POINTS) -> list[float | None]:
    """A curve of at most so many points, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[round(number * (len(values) - 1) / (most - 1))] for number in range(most)]
