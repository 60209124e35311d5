"""Rounds across sites under secure and dp: what each site's own process does to an answer before it leaves.

     each site's worker                        each site's own process                      coordinator
     update, examples, report ───────────────► secure: times the examples, whole numbers,   the sum of all, exactly:
                                               masked                                        mean update, examples,
                                                                                             mean loss, how many were ok
                                               dp: clipped, noised, counted by the site;     each site's noised update,
                                               with --dp-secure its share of the noise,      or their sum alone
                                               and masked

Whatever a client reports beside that, under its own name, stays at the site. What no sum can cover is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tffapps.engine.summing import LEAST_MEMBERS, LEFT_OUT, PLAIN, TIMES, WEIGHT, Noise, Summing
from tffapps.errors import RunStopped, UserError

if TYPE_CHECKING:
    from tffapps.federated.aggregation import Aggregation
    from tffapps.federated.computations import Specs
    from tffapps.federated.method import Method
    from tffapps.federated.task import Task

_ROLES = {"update": TIMES, "moments": TIMES, "weight": WEIGHT}
_REPORT = (LEFT_OUT, PLAIN, LEFT_OUT)  # its client, whether it is ok, its examples, which are the weight
_OK, _LOSS = 1, 3
_WHOLE_BYTES = 8


def applies(aggregation: Aggregation) -> bool:
    return aggregation.aggregator in ("secure", "dp")


def check(aggregation: Aggregation, method: Method, task: Task, specs: Specs, clients: int) -> None:
    """Refuses what a federation across sites cannot promise under these."""
    name = f"--aggregator {aggregation.aggregator}"
    if masked(aggregation) and clients < LEAST_MEMBERS:
        raise UserError(
            f"{name}: across sites it takes at least {LEAST_MEMBERS} of them in a round, since of two each knows the"
            f" other's update once it knows the sum, and there are {clients}; choose another aggregator"
        )
    for what, sends in (
        ("keep from round to round", specs.kept),
        ("send for the server to see one by one", specs.gathered),
        ("report beside examples and loss", method.report_columns(task)),
    ):
        if sends:
            raise UserError(
                f"{name}: across sites it does not cover what the clients of {method.name} {what}; choose another"
                " aggregator or method"
            )
    if aggregation.aggregator == "dp" and method.server_examples:
        raise UserError(
            f"{name}: across sites nobody knows how many examples {method.name} weighs the server's against"
        )


def masked(aggregation: Aggregation) -> bool:
    return aggregation.aggregator == "secure" or (aggregation.aggregator == "dp" and aggregation.dp_secure)


def bytes_up(aggregation: Aggregation, numbers: int) -> int:
    """What one site sends in place of an update of so many numbers: whole ones, of eight bytes each."""
    beside = 4 if aggregation.aggregator == "secure" else 0  # ok, examples, loss, how many were out of range
    return _WHOLE_BYTES * (numbers + beside)


def summing(aggregation: Aggregation) -> Summing:
    noise = Noise(aggregation.dp_clip, aggregation.dp_noise) if aggregation.aggregator == "dp" else None

    def runs(fields: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for name, count in fields:
            if name == "report" and noise is None:
                found += [*((role, 1) for role in _REPORT), (TIMES, count - len(_REPORT))]
            elif name in _ROLES or name == "report" or not count:
                found.append((_ROLES.get(name, LEFT_OUT), count))
            else:
                raise ValueError(f"nobody knows how to sum the {name} of clients")
        return found

    return Summing(runs, masked(aggregation), noise)


def check_total(done: Summing, most: Sequence[int | None], bound: float, what: str) -> None:
    """Refuses a sum that its members cannot have; `most` are the examples of each that is in it, where known."""
    if done.total is None or done.noise is not None:
        return
    if done.total.out_of_range:
        raise RunStopped(
            f"--aggregator secure: {done.total.out_of_range} values of the clients' updates times their examples are"
            f" beyond ±{bound:.3g}, so that their sum would be wrong; lower --learning-rate, check the images for"
            " outliers, or use --aggregator mean"
        )
    known = [count for count in most if count is not None]
    if len(known) == len(most) and done.total.weight > sum(known):
        raise RunStopped(
            f"{what}: sites report {done.total.weight:g} examples in all, and can have {sum(known)} at most; under"
            " --aggregator secure nobody can tell which of them is wrong"
        )


def took_part(done: Summing, reports: Any) -> tuple[int, int, float]:
    """How many clients are in the sum, with how many examples and which mean loss; no loss under dp."""
    row = np.asarray(reports, np.float64)[0]
    if done.total is None or done.noise is not None:
        return len(done.present), 0, float("nan")
    loss = row[_LOSS] if len(row) > _LOSS and done.total.weight else float("nan")
    return min(round(row[_OK]), len(done.present)), round(done.total.weight), float(loss)
