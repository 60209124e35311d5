"""One entry of a ledger: something that was computed from people's data and handed out, and the noise it had."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tffapps.errors import UserError

GAUSSIAN = "gaussian"  # every unit's part is in the sum, noise is added to it
POISSON = "poisson-gaussian"  # each unit's part is in the sum with the probability `sampling`, independently
EXACT = "exact"  # no noise: epsilon is infinite
MECHANISMS = (GAUSSIAN, POISSON, EXACT)
CLIENT, RECORD = "client", "record"
UNITS = (CLIENT, RECORD)


@dataclasses.dataclass(frozen=True)
class Release:
    """What was released `count` times in the same way.

    `noise` is the noise multiplier: the standard deviation of the sum's noise over the largest norm of one unit's part.
    Datasets are neighbours if one has a unit, a whole client or one record, that the other has not.
    """

    what: str  # such as "update of round 3"
    mechanism: str
    noise: float = 0.0
    sampling: float = 1.0
    count: int = 1
    unit: str = CLIENT
    by: tuple[str, ...] = ()  # the clients whose data it is made of; none: of every client

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise UserError(f"mechanism {self.mechanism!r}: choose one of {', '.join(MECHANISMS)}")
        if self.unit not in UNITS:
            raise UserError(f"unit {self.unit!r}: choose one of {', '.join(UNITS)}")
        if not (math.isfinite(self.noise) and self.noise >= 0):
            raise UserError(f"noise {self.noise}: a noise multiplier is a number, 0 or above")
        if not 0 <= self.sampling <= 1 or (self.mechanism != POISSON and self.sampling != 1):
            raise UserError(f"sampling {self.sampling}: a probability, 1 unless the mechanism is {POISSON}")
        if self.count < 1:
            raise UserError(f"count {self.count}: a release is made at least once")

    @property
    def noiseless(self) -> bool:
        return self.mechanism == EXACT or self.noise == 0

    def of_unit(self, unit: str) -> Release:
        """What it is to another unit.

        To one record, a client's clipped part can turn around: it moves by twice the clip, as if the noise were half as
        large. To a whole client, what hides one record hides nothing.
        """
        if unit == self.unit:
            return self
        if unit == RECORD and self.mechanism == GAUSSIAN:
            return dataclasses.replace(self, unit=unit, noise=self.noise / 2)
        return dataclasses.replace(self, unit=unit, mechanism=EXACT, noise=0.0, sampling=1.0)

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "by": list(self.by)}

    @classmethod
    def from_dict(cls, content: Any) -> Release:
        """What `as_dict` gave; a ValueError if it cannot be."""
        if not isinstance(content, Mapping) or set(content) != {field.name for field in dataclasses.fields(cls)}:
            raise ValueError("not a release")
        by = content["by"]
        if not isinstance(by, list) or not all(isinstance(name, str) for name in by):
            raise ValueError("by: a list of clients")
        return cls(
            what=str(content["what"]), mechanism=str(content["mechanism"]), noise=float(content["noise"]),
            sampling=float(content["sampling"]), count=int(content["count"]), unit=str(content["unit"]), by=tuple(by),
        )  # fmt: skip
