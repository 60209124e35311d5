"""What --tune asks for: settings, and the values to be tried of each. No TensorFlow here."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from tffapps.app import App, Common
from tffapps.errors import UserError
from tffapps.settings import Setting, check

MOST = 200  # settings that a method may try: more is a mistake in the flag


@dataclasses.dataclass(frozen=True)
class Grid:
    """Values of settings, by name."""

    values: Mapping[str, tuple[Any, ...]]

    def __len__(self) -> int:
        """How many settings there are to try: the budget of every method."""
        count = 1
        for each in self.values.values():
            count *= len(each)
        return count

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination, the values of the last setting changing first."""
        for combination in itertools.product(*self.values.values()):
            yield dict(zip(self.values, combination))


def parse(text: str, app: App) -> Grid:
    """`learning_rate=0.001,0.01;mu=0.1,1`, checked; a UserError says what is wrong with it."""
    values: dict[str, tuple[Any, ...]] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, equals, written = part.partition("=")
        name = name.strip().lstrip("-").replace("-", "_")
        if not equals or not written.strip():
            raise UserError(f"--tune {part}: write a setting and its values as learning_rate=0.001,0.01")
        setting = _setting(name, app, "--tune")
        if name in values:
            raise UserError(f"--tune {name}: given twice; write all of its values once")
        values[name] = tuple(dict.fromkeys(_read(setting, each.strip()) for each in written.split(",") if each.strip()))
    if not values:
        raise UserError("--tune: no setting; write it as learning_rate=0.001,0.01")
    grid = Grid(values)
    if not 2 <= len(grid) <= MOST:
        raise UserError(f"--tune: {len(grid)} settings to try; give 2 to {MOST}")
    return grid


def value_of(name: str, written: str, app: App, flag: str) -> Any:
    """The value of a setting that can be tuned, as it is written; a UserError names the flag that it is from."""
    return _read(_setting(name, app, flag), written, flag)


def _setting(name: str, app: App, flag: str) -> Setting:
    flags = app.flags()
    setting = flags.get(name)
    if setting is None or not _tunable(setting):
        known = ", ".join(each.name for each in flags.values() if _tunable(each))
        raise UserError(f"{flag} {name}: no setting that can be tuned; choose from {known}")
    return setting


def _tunable(setting: Setting) -> bool:
    return setting.owner is not Common and setting.in_key and not setting.several


def _read(setting: Setting, text: str, flag: str = "--tune") -> Any:
    try:
        if setting.kind is bool:
            value: Any = {"yes": True, "no": False}[text]
        else:
            value = setting.kind(text)
    except (ValueError, KeyError):
        kind = "yes or no" if setting.kind is bool else f"a value of type {setting.kind.__name__}"
        raise UserError(f"{flag} {setting.name}={text}: expected {kind}") from None
    try:
        return check(setting, value)
    except UserError as error:
        raise UserError(f"{flag}: {error}") from None
