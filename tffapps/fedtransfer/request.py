"""What a coordinator of FedTransfer asks of a site: the settings that each job is told, and how they are checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tffapps.errors import UserError
from tffapps.fedtransfer import GeneratorFlags, Settings
from tffapps.settings import check
from tffapps.wire.jobs import JOB
from tffapps.wire.messages import Message

# Only what changes the answer: the site finds again what it was asked before.
TILING = ("tile", "size", "tiles", "folds")
GENERATOR = (*TILING, "channels", "generator", "generator_width")
TRAINING = (*GENERATOR, "generator_epochs", "generator_batch", "generator_learning_rate", "l1_weight")
NETWORK = (*TILING, "channels", "width", "depth", "batch")


def write(
    job: str,
    values: Mapping[str, Any],
    names: Sequence[str],
    arrays: Mapping[str, np.ndarray] | None = None,
    **words: Any,
) -> Message:
    return Message({JOB: job, "settings": {name: values[name] for name in names}, **words}, arrays or {})


def settings_of(request: Message, names: Sequence[str]) -> dict[str, Any]:
    """The settings that a request must have, each as its flag would be checked."""
    fields = {field.name: field for owner in (Settings, GeneratorFlags) for field in dataclasses.fields(owner)}
    given = request.fields.get("settings")
    if not isinstance(given, dict) or set(given) != set(names):
        raise UserError(f"a request that has not the settings {', '.join(names)}")
    return {name: check(fields[name], given[name]) for name in names}


def number_in(request: Message, name: str, below: int) -> int:
    number = request.fields.get(name)
    if type(number) is not int or not 0 <= number < below:
        raise UserError(f"a request with {name} {number!r:.30}; it must be from 0 to {below - 1}")
    return number
