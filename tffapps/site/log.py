"""A site's log of what it was asked and what it answered: append-only, every line bound to all lines before it.

    log.jsonl   one JSON object a line; its `hash` is the SHA-256 of the hash of the line before and of this line
    last        how many lines there are, and the hash of the last one: written anew with every line

So an edited or removed line is found, wherever it is, and lines that were cut off at the end are found by `last`. Who
can write here can make both anew; who holds an earlier number and hash elsewhere, as the coordinator's runs do
(`site_logs.json`), finds that too. The folder is not among those that the worker and the jobs can open.

A line is on the disk before an answer with numbers leaves, and before a refusal does. What is asked again and again
while a job is under way, without an answer yet, is not written.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tffapps.errors import UserError
from tffapps.files import as_name
from tffapps.home import data_folder
from tffapps.site.relay import COMPUTE, Call, Refused
from tffapps.wire import jobs
from tffapps.wire.messages import Message

LINES, LAST = "log.jsonl", "last"
_FIRST = "0" * 64
_SERVED = "Served"  # what stands in place of a method when a site begins to serve
_ABOUT, _ASK, _TELL = (name.rpartition("/")[2] for name in (jobs.ABOUT, jobs.ASK, jobs.TELL))
_AT_ONCE = (COMPUTE, _SERVED, _ASK)  # on the disk before anything else happens
_LONGEST = 300


class Head(NamedTuple):
    """Where a log ends."""

    lines: int
    hash: str

    def __str__(self) -> str:
        return f"{self.lines}:{self.hash}"


def folder_of(name: str) -> Path:
    """Of a site; beside what the site has made, where its worker and its jobs cannot open it."""
    return data_folder().absolute() / "site-logs" / as_name(name)


class Log:
    """For one process at a time. A log that is not whole is not gone on with: UserError."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.head = _end(folder)
            self._out = open(folder / LINES, "ab", buffering=0)  # noqa: SIM115  as long as the site serves
            os.chmod(folder / LINES, 0o600)
            fcntl.flock(self._out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder}: another process writes this log; is the site served already?") from None
        except OSError as error:
            raise UserError(f"{folder}: the site's log cannot be written ({error.strerror})") from None

    def write(self, call: Call, decision: str, answer: int) -> None:
        """As the relay's `Journal` asks."""
        waits = call.method == _ASK and decision == "passed" and not answer
        if waits and len(call.content) < 128:
            return
        what = call.what or _what(call)
        came = len(call.content) if call.came < 0 else call.came
        fields = {"who": call.caller, "asked": call.method, "what": what, "in": came, "out": answer}
        if call.made is not None and call.made.computation:
            fields["computation"] = call.made.computation
        self.add({**fields, "decision": decision[:_LONGEST], "spent": call.spent}, call.method in _AT_ONCE)

    def served(self, **fields: Any) -> None:
        """That the site begins to serve, and how."""
        self.add({"who": "", "asked": _SERVED, **fields, "decision": "passed", "spent": {}}, at_once=True)

    def add(self, fields: dict[str, Any], at_once: bool = False) -> None:
        with self._lock:
            line = {"line": self.head.lines + 1, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **fields}
            head = Head(self.head.lines + 1, _hash(self.head.hash, line))
            content = json.dumps({**line, "hash": head.hash}, ensure_ascii=False).encode() + b"\n"
            try:
                size = os.fstat(self._out.fileno()).st_size
                try:
                    if self._out.write(content) != len(content):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    if at_once or fields["decision"] != "passed":
                        os.fsync(self._out.fileno())
                except OSError:
                    os.ftruncate(self._out.fileno(), size)
                    raise
                self.head = head
                self._write_last()
            except OSError as error:
                raise Refused(f"the site cannot write its log ({error.strerror})") from None

    def close(self) -> None:
        with self._lock:
            os.fsync(self._out.fileno())
            self._out.close()

    def _write_last(self) -> None:
        temporary = self._folder / f"{LAST}.tmp"
        temporary.write_text(f"{self.head}\n")
        os.replace(temporary, self._folder / LAST)


def _end(folder: Path) -> Head:
    try:
        return check(folder) if (folder / LINES).exists() else Head(0, _FIRST)
    except UserError as error:
        raise UserError(f"{error}; to begin anew keep that folder, for whoever looks into it, elsewhere") from None


def check(folder: Path, known: Head | None = None) -> Head:
    """Where the log ends, if it is whole; a UserError that names the first line that is wrong.

    `known` is what somebody else knows of it: that it had so many lines, the last with this hash.
    """
    head, hashes = Head(0, _FIRST), {0: _FIRST}
    for number, content in enumerate(_lines(folder), 1):
        head = Head(number, _checked(folder, number, content, head.hash))
        hashes[number] = head.hash
    if not (folder / LAST).is_file():
        if head.lines:
            raise UserError(f"{folder / LAST} is missing: whether lines were cut off at the end cannot be told")
        return head
    # A process that was killed may have left the line and not yet the note of it.
    last = parse_head((folder / LAST).read_text(errors="replace").strip(), str(folder / LAST))
    for each, who in ((last, LAST), (known, "the hash that was given")):
        if each is None:
            continue
        if each.lines > head.lines:
            missing = f"{head.lines} lines are there, {who} says {each.lines}"
            raise UserError(f"{folder / LINES}: lines were cut off at the end: {missing}")
        if hashes[each.lines] != each.hash:
            raise UserError(f"{folder / LINES}: line {each.lines} is another than {who} says")
    if head.lines > last.lines + 1:
        raise UserError(f"{folder / LAST}: older than the log: {last.lines} of {head.lines} lines")
    return head


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log that has been checked."""
    for content in _lines(folder):
        yield json.loads(content)


def parse_head(text: str, source: str = "--known") -> Head:
    lines, _, digest = text.partition(":")
    if not (lines.isdecimal() and len(lines) < 15 and re.fullmatch("[0-9a-f]{64}", digest)):
        raise UserError(f"{source} {text!r:.100}: not LINES:HASH, as the end of a log is written")
    return Head(int(lines), digest)


def shown(line: Mapping[str, Any]) -> str:
    """A line for people."""
    who, what, size = line.get("who") or "-", line.get("what", ""), f"{line.get('in', 0)} in, {line.get('out', 0)} out"
    spent = " ".join(f"{name}={value:g}" for name, value in line.get("spent", {}).items())
    words = (line["line"], line["time"], who, line["asked"], what, size, line["decision"], spent and f"spent {spent}")
    return "  ".join(str(word) for word in words if word != "")


def _lines(folder: Path) -> Iterator[bytes]:
    try:
        with open(folder / LINES, "rb") as file:
            yield from file
    except OSError as error:
        raise UserError(
            f"{folder / LINES}: cannot be read ({error.strerror}); give the folder of a site's log"
        ) from None


def _checked(folder: Path, number: int, content: bytes, before: str) -> str:
    where = f"{folder / LINES}: line {number}"
    try:
        line = json.loads(content)
        stated = line.pop("hash")
        own = line["line"]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f"{where} cannot be read: it was changed, or not written to its end") from None
    if own != number:
        raise UserError(f"{where} says it is line {own}: lines were removed or put in before it")
    if not content.endswith(b"\n") or stated != _hash(before, line):
        raise UserError(f"{where} was changed, or what is before it")
    return stated


def _what(call: Call) -> str:
    """Of what the site answers itself."""
    words = {_ABOUT: _about, _ASK: _job, _TELL: lambda content: content.decode(errors="replace")}.get(call.method)
    try:
        text = words(call.content) if words else ""
    except (ValueError, UserError):
        text = "?"
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_LONGEST]


def _about(content: bytes) -> str:
    about = jobs.About.from_bytes(content)
    return f"{about.application} {about.method}: {about.run}"


def _job(content: bytes) -> str:
    _, _, request = jobs.asked(content)
    return str(Message.from_bytes(request, "").fields.get(jobs.JOB)) if request else "its answer"


def _hash(before: str, line: dict[str, Any]) -> str:
    return hashlib.sha256(f"{before} {json.dumps(line, sort_keys=True)}".encode()).hexdigest()
