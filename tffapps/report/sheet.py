"""A CSV file as it is: every cell is text, nothing is guessed."""

from __future__ import annotations

import csv
import dataclasses
import pathlib
from collections.abc import Mapping

csv.field_size_limit(2**20)


class Broken(Exception):
    """A file that cannot be shown: what is wrong with it."""


@dataclasses.dataclass(frozen=True)
class Sheet:
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]

    def values(self, column: str) -> list[str]:
        return [row[column] for row in self.rows]

    def only(self, wanted: Mapping[str, str]) -> Sheet:
        """The rows that have these values."""
        return Sheet(self.columns, tuple(row for row in self.rows if matches(row, wanted)))


def matches(row: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(row.get(column) == value for column, value in wanted.items())


def number(text: str) -> float | None:
    """None: blank or not a number. Python would also take `1_0`, which is a name."""
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None  # neither infinite nor NaN


def read(path: pathlib.Path) -> Sheet:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file, strict=True))
    except OSError as error:
        raise Broken(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Broken("is not text") from None
    except csv.Error as error:
        raise Broken(f"is not a CSV file: {error}") from None
    if not lines or not any(lines[0]):
        raise Broken("is empty, not even a line of column names")
    header = lines[0]
    if len(set(header)) < len(header):
        raise Broken("has two columns of the same name")
    for place, line in enumerate(lines[1:], 2):
        if line and len(line) != len(header):
            raise Broken(f"row {place} has {len(line)} fields, the row of column names {len(header)}")
    return Sheet(tuple(header), tuple(dict(zip(header, line)) for line in lines[1:] if line))
