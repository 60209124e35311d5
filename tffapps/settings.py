"""Settings: frozen dataclasses whose fields are also the flags, the key of a run and the tables of the docs.

No TensorFlow here, so that `--help` answers at once.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from models.names import is_own
from tffapps.errors import UserError

LARGEST = 2**31 - 1  # of whole numbers: what every tensor and every random generator can hold
CHANGED = "changed"
S = TypeVar("S")


def setting(
    default: Any, meaning: str, *, flag: bool = True, in_key: bool | str = True, alias: str = "", **limits: Any
) -> Any:
    """A dataclass field with its meaning (and where its value comes from) beside it.

    `choices`, `least` and `most` (may be reached), `above` and `below` (may not) limit its values; `own=True`: beside
    its choices it takes MODULE:FUNCTION, code of the user's; `metavar` is for the help; `repeated`: the
    flag may be given several times, and its texts are joined by semicolons. `flag=False` keeps it off the command line:
    an application works it out. `in_key=False`: it changes no number of a run that is not told apart
    otherwise (by the fingerprint of the images, a label, the weights' hash). `in_key=CHANGED`: it is in the key unless
    it has its default, so that runs from before there was such a setting keep theirs. `alias` is the flag's name in the
    version before, and `alias_values` what its values are called now.
    """
    metadata = {"help": meaning, "flag": flag, "in_key": in_key, "alias": alias, **limits}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One field of a settings class, its type resolved."""

    name: str
    owner: type
    default: Any
    kind: type  # of the value, or of each value where there are several
    several: bool
    limits: Mapping[str, Any]  # the metadata that `setting` was given

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def on_command_line(self) -> bool:
        return self.limits.get("flag", True)

    @property
    def in_key(self) -> bool:
        return bool(self.limits.get("in_key", True))

    @property
    def in_key_when_changed(self) -> bool:
        return self.limits.get("in_key") == CHANGED


def settings_of(owner: type) -> tuple[Setting, ...]:
    """The fields of a settings class, in order."""
    if owner not in _RESOLVED:
        hints = _hints(owner)
        _RESOLVED[owner] = tuple(_resolved(field, owner, hints[field.name]) for field in dataclasses.fields(owner))
    return _RESOLVED[owner]


_RESOLVED: dict[type, tuple[Setting, ...]] = {}


def _hints(owner: type) -> dict[str, Any]:
    """Types of the fields alone: other annotations may name what only type checkers import."""
    hints: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        own = inspect.get_annotations(base)
        known = {field.name for field in dataclasses.fields(base)} if dataclasses.is_dataclass(base) else set()
        holder = type(base.__name__, (), {"__annotations__": {name: own[name] for name in own if name in known}})
        holder.__module__ = base.__module__
        hints |= typing.get_type_hints(holder)
    return hints


def _resolved(field: dataclasses.Field, owner: type, hint: Any) -> Setting:
    several = typing.get_origin(hint) is tuple
    kind = typing.get_args(hint)[0] if several else hint
    return Setting(field.name, owner, field.default, kind, several, field.metadata)


def check(setting: Setting, value: Any) -> Any:
    """The value of a setting, or a UserError that names its flag and what it takes."""
    if not setting.several:
        return _check_one(setting, value)
    if not isinstance(value, (tuple, list)) or (not value and setting.default):
        raise UserError(f"{setting.flag}: give at least one value")
    return tuple(dict.fromkeys(_check_one(setting, item) for item in value))  # each once


def _check_one(setting: Setting, value: Any) -> Any:
    flag, kind, limits = setting.flag, setting.kind, setting.limits
    if isinstance(value, int) and abs(value) > LARGEST:
        raise UserError(f"{flag} {value!s:.30}: too large; {LARGEST} at most")
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{flag} {value}: holds a zero byte")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise UserError(f"{flag} {value}: expected a value of type {kind.__name__}")
    if limits.get("choices") and value not in limits["choices"] and not names_own_code(setting, value):
        also = ", or MODULE:FUNCTION, one of your own" if limits.get("own") else ""
        raise UserError(f"{flag} {value}: choose one of {', '.join(map(str, limits['choices']))}{also}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{flag} {value}: must be a finite number")
    if "least" in limits and value < limits["least"]:
        raise UserError(f"{flag} {value}: must be {limits['least']} or more")
    if "most" in limits and value > limits["most"]:
        raise UserError(f"{flag} {value}: must be {limits['most']} or less")
    if "above" in limits and value <= limits["above"]:
        raise UserError(f"{flag} {value}: must be more than {limits['above']}")
    if "below" in limits and value >= limits["below"]:
        raise UserError(f"{flag} {value}: must be less than {limits['below']}")
    return value


def names_own_code(setting: Setting, value: Any) -> bool:
    """Whether a value is MODULE:FUNCTION, where the setting takes such."""
    return bool(setting.limits.get("own")) and isinstance(value, str) and is_own(value)


def key_values(settings: Any) -> dict[str, Any]:
    """What an instance of a settings class puts into a run's key: plain values, as JSON gives them back."""
    excluded = {
        each.name
        for each in settings_of(type(settings))
        if not each.in_key or (each.in_key_when_changed and getattr(settings, each.name) == each.default)
    }
    return {
        field.name: _plain(getattr(settings, field.name))
        for field in dataclasses.fields(settings)
        if field.name not in excluded
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **key_values(value)}
    return [_plain(item) for item in value] if isinstance(value, (tuple, list)) else value


class Flags:
    """The command line of an application, resolved: `flags[PlflSettings].rounds`.

    Any settings class whose flags are among the application's can be asked for.
    """

    def __init__(self, values: Mapping[str, Any], profile: str, fresh: bool = False) -> None:
        self._values = dict(values)
        self.profile = profile
        self.fresh = fresh  # start over instead of going on

    def __getitem__(self, kind: type[S]) -> S:
        known = {each.name for each in settings_of(kind)}
        missing = [each.name for each in settings_of(kind) if each.on_command_line and each.name not in self._values]
        if missing:
            raise KeyError(f"{kind.__name__}.{missing[0]} is no flag of this application")
        return kind(**{name: value for name, value in self._values.items() if name in known})

    def replaced(self, **changes: Any) -> Flags:
        """The same with other values."""
        unknown = sorted(set(changes) - set(self._values))
        if unknown:
            raise KeyError(f"{unknown[0]} is no flag of this application")
        return Flags({**self._values, **changes}, self.profile, self.fresh)

    def as_dict(self) -> dict[str, Any]:
        """Every flag by name, and the profile: what is written down beside a run."""
        return {**self._values, "profile": self.profile}
