"""A file of releases, one a line of JSON, that only grows.

A line is written, and is on the disk, before what it speaks of is computed. What is computed again after a crash has
fresh noise and is another release, so its line stands there twice. A line that a crash has cut short spoke of something
that was never begun: it is left out.
"""

from __future__ import annotations

import csv
import json
import os
import pathlib
from collections.abc import Iterable, Sequence

from preprocessing.whole_files import is_full, no_space
from tffapps.errors import RunStopped, UserError
from tffapps.privacy.release import Release

COLUMNS = ("what", "mechanism", "noise", "sampling", "count", "unit", "by")


class Ledger:
    """The ledger in a file, which is made with its first line."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def append(self, releases: Iterable[Release]) -> None:
        """Writes down what is about to be released; it is on the disk when this returns."""
        lines = "".join(json.dumps(release.as_dict()) + "\n" for release in releases)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "ab+") as file:
                whole = _whole(self._bytes())
                if file.tell() > len(whole):  # the end of a line that was cut short
                    file.truncate(len(whole))
                file.write(lines.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            if is_full(error):
                raise RunStopped(no_space(self.path)) from error
            raise UserError(f"cannot write {self.path}: {error.strerror}") from error

    def releases(self) -> list[Release]:
        """All that is written there, in order; none if there is no such file."""
        found = []
        for number, line in enumerate(_whole(self._bytes()).splitlines(), 1):
            try:
                found.append(Release.from_dict(json.loads(line)))
            except (ValueError, TypeError, RecursionError, UserError) as error:
                raise UserError(
                    f"{self.path}: line {number} is no release ({error}), so that nobody knows what was spent; restore"
                    " the file, or count its run as unprotected by removing it"
                ) from None
        return found

    def _bytes(self) -> bytes:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return b""


def _whole(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def write_csv(path: pathlib.Path, releases: Sequence[Release]) -> None:
    """A ledger as a table; clients are joined by semicolons, which their names must not have."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows({**release.as_dict(), "by": ";".join(release.by)} for release in releases)


def read_csv(path: pathlib.Path) -> list[Release]:
    """What `write_csv` has written, or somebody by hand."""
    try:
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        return [Release.from_dict({**row, "by": [name for name in row["by"].split(";") if name]}) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, csv.Error, UserError) as error:
        raise UserError(f"{path}: not a ledger with the columns {','.join(COLUMNS)} ({error})") from None
