"""What a coordinator of FedTransfer asks of a site: whole settings, which the site checks as flags are checked."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tffapps import Flags, Message, UserError
from tffapps.settings import check, settings_of
from tffapps.wire.jobs import JOB


def write(job: str, settings: Sequence[Any], arrays: Sequence[np.ndarray] = (), **fields: int | str) -> Message:
    """A request for a job. Its settings are those that change the answer: a site finds again what it did before."""
    told = {name: value for each in settings for name, value in dataclasses.asdict(each).items()}
    numbered = {str(number): array for number, array in enumerate(arrays)}
    return Message({JOB: f"fedtransfer/{job}", "settings": told, **fields}, numbered)


def settings_in(request: Message, *kinds: type) -> Flags:
    """The settings that a request must have, those of these classes."""
    expected = {each.name: each for kind in kinds for each in settings_of(kind)}
    told = request.fields.get("settings")
    if not isinstance(told, dict) or set(told) != set(expected):
        raise UserError(f"a request that has not the settings {', '.join(expected)}")
    return Flags({name: check(each, told[name]) for name, each in expected.items()}, profile="")


def number_in(request: Message, name: str, below: int) -> int:
    """One of its fields, from 0 on."""
    number = request.fields.get(name)
    if type(number) is not int or not 0 <= number < below:
        raise UserError(f"a request with {name} {number!r:.30}; it must be from 0 to {below - 1}")
    return number


def arrays_in(request: Message) -> list[np.ndarray]:
    """Those of a request are called 0, 1, …"""
    names = [str(number) for number in range(len(request.arrays))]
    if set(request.arrays) != set(names):
        raise UserError("a request whose arrays are not numbered")
    return [request.arrays[name] for name in names]
