"""Settings: frozen dataclasses whose fields are also the flags, `settings.json` and the tables of the docs.

No TensorFlow here, so that `--help` answers at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any


def setting(default: Any, meaning: str, **metadata: Any) -> Any:
    """A dataclass field with its meaning (and where its value comes from) beside it."""
    return dataclasses.field(default=default, metadata={"help": meaning, **metadata})


def as_dict(settings: Any) -> dict[str, Any]:
    """Plain values, tuples as lists: what JSON gives back."""
    values = dataclasses.asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def pick(settings_class: type, values: dict[str, Any]) -> Any:
    """An instance of `settings_class` from those entries of `values` that it has fields for."""
    names = {field.name for field in dataclasses.fields(settings_class)}
    return settings_class(**{name: value for name, value in values.items() if name in names})
