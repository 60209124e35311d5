"""Sums over sites in place of their answers: asked for by who plays a round, as a judge is (`judging`).

    with summed(Summing(runs, masked=True)) as summing:
        round_.next(...)
    summing.present, summing.lost

Every site's own process makes whole numbers of its answer (`secure_sums.form`), clips and noises them if it is told so,
and masks them if the sum is to be `masked`. The coordinator learns the sum, and goes on with it as if there were one
client: the mean of all updates, with the sum of their weights.
"""

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from tffapps.secure_sums.agreement import LEAST_MEMBERS, threshold
from tffapps.secure_sums.form import LEFT_OUT, PLAIN, TIMES, WEIGHT, Form, Noise, Total

__all__ = [
    "LEAST_MEMBERS",
    "LEFT_OUT",
    "PLAIN",
    "TIMES",
    "WEIGHT",
    "Noise",
    "Summing",
    "Total",
    "summed",
    "summing_in_office",
]

# What becomes of the fields of a client's result, given as names and how many numbers each has.
Runs = Callable[[Sequence[tuple[str, int]]], list[tuple[str, int]]]


@dataclasses.dataclass
class Summing:
    runs: Runs
    masked: bool
    noise: Noise | None = None  # that the sum has if it is masked, each site's numbers if not
    # What came of it:
    total: Total | None = None
    present: list[int] = dataclasses.field(default_factory=list)  # places of the clients whose numbers are in the sum
    lost: dict[int, str] = dataclasses.field(default_factory=dict)  # of the others, why; and who cheated

    def form(self, fields: Sequence[tuple[str, int]], members: int) -> Form:
        """Of so many sites; of a masked sum as many as must be left at the end have all the noise together."""
        noise = self.noise
        if noise is not None and self.masked:
            noise = dataclasses.replace(noise, shared_by=threshold(members))
        return Form(tuple(self.runs(fields)), noise)


_SUMMING: contextvars.ContextVar[Summing | None] = contextvars.ContextVar("summing", default=None)


@contextlib.contextmanager
def summed(summing: Summing) -> Iterator[Summing]:
    """For the computations that are called in the block; engines of this machine know nothing of it."""
    token = _SUMMING.set(summing)
    try:
        yield summing
    finally:
        _SUMMING.reset(token)


def summing_in_office() -> Summing | None:
    return _SUMMING.get()
