"""Settings: frozen dataclasses whose fields are also the flags, `settings.json` and the tables of the docs.

No TensorFlow here, so that `--help` answers at once.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tffapps.errors import UserError

LARGEST = 2**31 - 1  # of whole numbers: what every tensor and every random generator can hold


def setting(default: Any, meaning: str, **metadata: Any) -> Any:
    """A dataclass field with its meaning (and where its value comes from) beside it.

    `choices`, `least` and `most` (may be reached), `above` and `below` (may not) limit its values; `metavar` is for
    the help;
    `flag=False` keeps it off the command line: an application works it out.
    """
    return dataclasses.field(default=default, metadata={"help": meaning, **metadata})


def check(field: dataclasses.Field, value: Any) -> Any:
    """The value of a setting, or a UserError that names its flag and what it takes."""
    flag, limits = "--" + field.name.replace("_", "-"), field.metadata
    if isinstance(field.default, tuple):
        if not isinstance(value, (tuple, list)) or (not value and field.default):
            raise UserError(f"{flag}: give at least one value")
        kind = item_kind(field)
        return tuple(dict.fromkeys(_check_one(flag, limits, kind, item) for item in value))  # each once
    return _check_one(flag, limits, type(field.default), value)


def item_kind(field: dataclasses.Field) -> type:
    """What the items of a tuple are, told from its annotation: the default may be empty."""
    return next((kind for kind in (int, float) if kind.__name__ in str(field.type)), str)


def _check_one(flag: str, limits: Any, kind: type, value: Any) -> Any:
    if isinstance(value, int) and abs(value) > LARGEST:
        raise UserError(f"{flag} {value!s:.30}: too large; {LARGEST} at most")
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{flag} {value}: holds a zero byte")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise UserError(f"{flag} {value}: expected a value of type {kind.__name__}")
    if limits.get("choices") and value not in limits["choices"]:
        raise UserError(f"{flag} {value}: choose one of {', '.join(map(str, limits['choices']))}")
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


def as_dict(settings: Any) -> dict[str, Any]:
    """Plain values, tuples as lists: what JSON gives back."""
    values = dataclasses.asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def pick(settings_class: type, values: dict[str, Any]) -> Any:
    """An instance of `settings_class` from those entries of `values` that it has fields for."""
    names = {field.name for field in dataclasses.fields(settings_class)}
    return settings_class(**{name: value for name, value in values.items() if name in names})
