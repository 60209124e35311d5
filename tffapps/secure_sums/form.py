"""How an answer's numbers become whole numbers that can be added up, and how the sum is read.

An answer is a row of floating-point numbers, cut into runs, each with a role:

    times       is sent times the weight: the sum over the members, divided by that of the weights, is their mean
    plain       is sent as it is
    weight      the weight itself, one number: how many examples
    left out    is not sent at all; read as 0

A number is sent as round(value / UNIT) + 2^(BITS-1), which has room for ±BOUND and is exact to half a UNIT. What does
not fit is cut and counted; the count is sent with the rest. With `noise` (differential privacy) every member counts the
same: no weight is sent, what is sent is clipped as a whole and noised, and the sum is divided by the members.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from tffapps.secure_sums import randomness
from tffapps.secure_sums.agreement import MOST_MEMBERS, Refused

TIMES, PLAIN, WEIGHT, LEFT_OUT = "times", "plain", "weight", "left out"
_ROLES = (TIMES, PLAIN, WEIGHT, LEFT_OUT)
UNIT, BITS = 2.0**-20, 50
BOUND = UNIT * 2 ** (BITS - 1)
_SHIFT = 1 << (BITS - 1)  # what is added up is not negative
_MOST_RUNS = 1000


@dataclasses.dataclass(frozen=True)
class Noise:
    """Of the sum over the members that share it: Gaussian, with the standard deviation clip · multiplier."""

    clip: float  # largest L2 norm of one member's part
    multiplier: float
    shared_by: int = 1  # members whose noise together is that of the sum; 1: each adds all of it

    def __post_init__(self) -> None:
        numbers = all(
            isinstance(value, (int, float)) and math.isfinite(value) for value in (self.clip, self.multiplier)
        )
        shared = type(self.shared_by) is int and 1 <= self.shared_by <= MOST_MEMBERS
        if not (numbers and shared and 0 < self.clip <= BOUND and self.multiplier >= 0):
            raise Refused("noise that is none")

    def applied(self, values: np.ndarray) -> np.ndarray:
        """Clipped and noised; numbers that are not finite count as none."""
        if not np.isfinite(values).all():
            values = np.zeros_like(values)
        norm = float(np.linalg.norm(values))
        clipped = values * min(1.0, self.clip / norm) if norm > 0 else values
        spread = self.clip * self.multiplier / math.sqrt(self.shared_by)
        return clipped + spread * randomness.gaussian(values.size) if spread else clipped


class Total(NamedTuple):
    """What a sum says."""

    values: np.ndarray  # as many as an answer has: means of `times`, sums of the others
    weight: float
    out_of_range: int


@dataclasses.dataclass(frozen=True)
class Form:
    runs: tuple[tuple[str, int], ...]
    noise: Noise | None = None

    def __post_init__(self) -> None:
        good = len(self.runs) <= _MOST_RUNS and all(
            role in _ROLES and type(count) is int and count >= 0 for role, count in self.runs
        )
        if not good or sum(count for role, count in self.runs if role == WEIGHT) != 1:
            raise Refused("a form of an answer that is none")
        if self.noise is not None and any(role == PLAIN and count for role, count in self.runs):
            raise Refused("a form of an answer in which not everything is noised")

    @property
    def length(self) -> int:
        """Numbers in an answer."""
        return sum(count for _, count in self.runs)

    @property
    def size(self) -> int:
        """Whole numbers that are sent."""
        return sum(count for role, count in self.runs if role in self._sent) + (self.noise is None)

    def numbers(self, values: np.ndarray, longest: float = math.inf) -> np.ndarray:
        """Of an answer; Refused if it is not of this form.

        `longest` is the member's own bound on the L2 norm of all its `times` numbers, before the weight: a longer row
        is shortened. Noise comes with a bound of its own.
        """
        if values.shape != (self.length,):
            raise Refused(f"an answer of {values.size} numbers, of which {self.length} were agreed on")
        if self.noise is not None:
            return _encoded(self.noise.applied(values[self._where(*self._sent)]))[0]
        weight = float(np.round(values[self._where(WEIGHT)][0]))
        if not 0 <= weight <= BOUND:
            raise Refused("a weight that is none")
        values = self.shortened(values, longest)
        sent = values[self._where(*self._sent)] * self._factors(weight)
        sent = np.where(np.isfinite(sent), sent, 0.0) if weight == 0 else sent  # who leaves itself out has no loss
        if not np.isfinite(sent).all():
            raise Refused("numbers that are not finite")
        whole, out = _encoded(sent)
        return np.append(whole, _encoded(np.asarray([out], np.float64))[0])

    def shortened(self, values: np.ndarray, longest: float) -> np.ndarray:
        """The same, its `times` numbers no longer than this."""
        times = self._where(TIMES)
        length = float(np.linalg.norm(values[times]))
        return np.where(times, values * (longest / length), values) if longest < length < math.inf else values

    def read(self, total: np.ndarray, members: int) -> Total:
        """Of the sum of so many members' numbers; Refused if it cannot be one."""
        if total.size and (total.min() < 0 or total.max() >= members << BITS):
            raise Refused("a sum that so few numbers cannot have")
        sums = UNIT * (total - members * _SHIFT).astype(np.float64)
        values = np.zeros(self.length)
        sent = self._where(*self._sent)
        if self.noise is not None:
            values[sent], values[self._where(WEIGHT)] = sums / members, members
            return Total(values, float(members), 0)
        values[sent] = sums[:-1]
        weight = float(values[self._where(WEIGHT)][0])
        if weight < 0 or sums[-1] < 0:
            raise Refused("a sum of weights below zero")
        values[sent] /= self._factors(weight) if weight else 1.0
        return Total(values, weight, round(sums[-1]))

    def to_fields(self) -> dict[str, Any]:
        noise = None if self.noise is None else dataclasses.asdict(self.noise)
        return {"runs": [list(run) for run in self.runs], "noise": noise}

    @classmethod
    def from_fields(cls, fields: Any) -> Form:
        if not isinstance(fields, dict) or set(fields) != {"runs", "noise"} or not isinstance(fields["runs"], list):
            raise Refused("a form of an answer that is none")
        if not all(isinstance(run, list) and len(run) == 2 and isinstance(run[0], str) for run in fields["runs"]):
            raise Refused("a form of an answer that is none")
        noise, names = fields["noise"], {field.name for field in dataclasses.fields(Noise)}
        if noise is not None and (not isinstance(noise, dict) or set(noise) != names):
            raise Refused("noise that is none")
        return cls(tuple((run[0], run[1]) for run in fields["runs"]), None if noise is None else Noise(**noise))

    @property
    def _sent(self) -> tuple[str, ...]:
        return (TIMES, PLAIN, WEIGHT) if self.noise is None else (TIMES,)

    def _where(self, *roles: str) -> np.ndarray:
        flags = [np.full(count, role in roles) for role, count in self.runs]
        return np.concatenate(flags) if flags else np.zeros(0, bool)

    def _factors(self, weight: float) -> np.ndarray:
        """Of the numbers that are sent."""
        parts = [np.full(count, weight if role == TIMES else 1.0) for role, count in self.runs if role in self._sent]
        return np.concatenate(parts)


def _encoded(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Whole numbers of BITS bits, and how many did not fit."""
    out = int(np.count_nonzero(np.abs(values) > BOUND))
    whole = np.round(np.clip(values, -BOUND, BOUND) / UNIT).astype(np.int64) + _SHIFT
    return np.minimum(whole, 2 * _SHIFT - 1), out
