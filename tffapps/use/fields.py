"""JSON from a stranger, read field by field: what is missing, of another kind or out of bounds is told in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from models.stored import shown
from tffapps.errors import UserError

LONGEST = 200  # characters of a text
MOST = 10_000  # entries of a list


class Fields:
    """An object of a JSON file. `where` names it in messages."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values, self.where = values, where

    @classmethod
    def parse(cls, contents: bytes, where: str) -> Fields:
        """The one object that a file is."""
        try:
            values = json.loads(contents, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:  # JSON's own and Unicode's are ValueErrors
            raise UserError(f"{where}: not JSON ({shown(error)}); fetch the bundle again") from None
        if not isinstance(values, dict):
            raise UserError(f"{where}: not a JSON object; fetch the bundle again")
        return cls(values, where)

    @property
    def names(self) -> list[str]:
        return list(self._values)

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def refuse(self, name: str, expected: str) -> NoReturn:
        found = shown(repr(self._values.get(name)))
        raise UserError(f"{self.where}: {shown(name)} is {found}, expected {expected}; fetch the bundle again")

    def text(self, name: str, choices: Sequence[str] = ()) -> str:
        value = self._values.get(name)
        if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
            self.refuse(name, "a short line of text")
        if choices and value not in choices:
            self.refuse(name, f"one of {', '.join(choices)}")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name)
        if not isinstance(value, bool):
            self.refuse(name, "true or false")
        return value

    def whole(self, name: str, least: int, most: int) -> int:
        value = self._values.get(name)
        if type(value) is not int or not least <= value <= most:
            self.refuse(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, least: float, most: float) -> float:
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            self.refuse(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def number_or_none(self, name: str, least: float = -math.inf, most: float = math.inf) -> float | None:
        return self.number(name, least, most) if self.has(name) else None

    def texts(self, name: str, least: int = 0) -> list[str]:
        """Lines that differ."""
        entries = self._list(name)
        values = [Fields({name: entry}, self.where).text(name) for entry in entries]
        if len(values) < least or len(set(values)) != len(values):
            self.refuse(name, f"{least} or more texts, each once")
        return values

    def part(self, name: str) -> Fields:
        value = self._values.get(name)
        if not isinstance(value, dict) or len(value) > MOST:
            self.refuse(name, "an object")
        return Fields(value, f"{self.where}, {shown(name)}")

    def parts(self, name: str) -> list[Fields]:
        entries = self._list(name)
        if not all(isinstance(entry, dict) for entry in entries):
            self.refuse(name, "a list of objects")
        return [Fields(entry, f"{self.where}, {name}") for entry in entries]

    def any(self, name: str) -> Any:
        """Whatever it is: to be shown, never to be acted on."""
        return self._values.get(name)

    def _list(self, name: str) -> list[Any]:
        value = self._values.get(name)
        if not isinstance(value, list) or len(value) > MOST:
            self.refuse(name, "a list")
        return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
