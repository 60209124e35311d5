"""What leaves clients beside their updates, declared by each system, and which protections cover it.

A protection that left out a part would promise what it does not keep: such a combination is refused, by name, before
anything is computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tffapps.errors import UserError

DP, SECURE, RECORD_DP = "--aggregator dp", "--aggregator secure", "--record-dp"
PROTECTIONS = (DP, SECURE, RECORD_DP)


@dataclasses.dataclass(frozen=True)
class Stage:
    """Something that is made of clients' images and handed out."""

    what: str  # "the Gram matrices of every client's styles"
    by: str  # what asks for it, as on the command line: "--methods fnst"
    asked: Callable[[Any], bool]  # of the command's `Flags`
    covered: tuple[str, ...] = ()  # by which protections


def of_flag(name: str, value: Any, what: str, covered: tuple[str, ...] = ()) -> Stage:
    """A stage that a flag asks for by a value, or by one of its values."""

    def asked(flags: Any) -> bool:
        given = flags.as_dict().get(name)
        return value in given if isinstance(given, tuple) else given == value

    flag = f"--{name.replace('_', '-')}"
    return Stage(what, flag if value is True else f"{flag} {value}", asked, covered)


def asked_for(values: Mapping[str, Any]) -> list[str]:
    """The protections that flags ask for."""
    found = [f"--aggregator {values['aggregator']}"] if values.get("aggregator") in ("dp", "secure") else []
    return [*found, *([RECORD_DP] if values.get("record_dp") else [])]


def check(stages: Iterable[Stage], flags: Any) -> None:
    """Refuses the first stage that a protection is asked for and does not cover."""
    protections = asked_for(flags.as_dict())
    for stage in stages if protections else ():
        for protection in protections:
            if protection not in stage.covered and stage.asked(flags):
                raise UserError(f"{protection}: it does not cover {stage.what}; leave out {stage.by}, or {protection}")
