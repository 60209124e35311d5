"""One round with the clients that can take part; the others are left out and named."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tffapps.engine.in_process import ClientError
from tffapps.engine.judging import judged
from tffapps.engine.summing import LEAST_MEMBERS, Summing, summed
from tffapps.engine.values import HERE, AtSite, Deferred
from tffapps.errors import RunStopped
from tffapps.federated import summed as sums
from tffapps.federated.aggregation import SECURE_BOUND, Aggregation
from tffapps.federated.judge import Judge
from tffapps.federated.round import AnyState, Round, RoundResult

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Client:
    """A name and, for a round's number, that round's data: batches, or whatever the task's `client_spec` asks for."""

    name: str
    batches: Callable[[int], Any]
    # Where the data is, if the federation is across sites; None: the site of the same name; HERE: with the coordinator.
    site: str | None = None
    examples: int | None = None  # the most that it can have seen in a round, if that is known
    passes: int | None = None  # how often a round sees one of its images at most, if that is known

    def data(self, number: int) -> AtSite:
        return AtSite(self.name if self.site is None else self.site, self.batches(number))


def stream(seed: int, number: int, position: int) -> int:
    """A seed for one client's data in one round; `position` is the client's among all."""
    return int(np.random.SeedSequence([seed, number, position]).generate_state(1)[0])


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one round did."""

    state: AnyState
    examples: int
    loss: float  # mean over the examples of the clients that took part
    took_part: int
    left_out: dict[str, str]  # name -> why
    reports: dict[str, dict[str, float]]  # name -> the client's report, of those that took part
    measurements: Any
    # position -> what the client keeps for its next round, of those that took part; the others keep what they had.
    # Not read before it is asked for: clients may have whole models to themselves.
    kept: Mapping[int, Callable[[], list[np.ndarray]]] = dataclasses.field(default_factory=dict)


def play(
    round_: Round,
    state: AnyState,
    clients: Sequence[Client],
    number: int,
    min_clients: int,
    server_data: Callable[[int], Any] | None = None,
    kept: Callable[[int], list[np.ndarray]] | None = None,
    asked: Sequence[int] | None = None,
    spend: Callable[[Sequence[int]], None] | None = None,
) -> Outcome:
    """Plays a round; with fewer than `min_clients` good updates once more, then gives up.

    Args:
      round_: what is played.
      state: the server's, before it.
      clients: of the federation.
      number: the round's, from 1.
      min_clients: how many of them must.
      server_data: the server's own data for a round's number, where the round has a server step.
      kept: what the client at a position has kept, where clients keep anything.
      asked: positions of the clients that are to take part; None: all.
      spend: is told who takes part, before anything is computed, and every time that something is.
    """
    positions = list(range(len(clients)) if asked is None else asked)
    summing: Summing | None = None

    def call(present: Sequence[int]) -> RoundResult:
        nonlocal summing
        if spend is not None:
            spend(present)
        summing = summing_of(round_.aggregation if round_.summed else None, [clients[position] for position in present])
        with (
            summed_if(summing),
            judged(Judge.of_round(round_, state, present, [clients[position].examples for position in present])),
        ):
            return round_.next(
                state,
                list(present),
                [clients[position].data(number) for position in present],
                server_data=server_data(number) if server_data else None,
                kept=[Deferred(functools.partial(kept, position)) for position in present] if kept else None,
            )

    outcome, needed = None, max(min_clients, round_.aggregation.least_clients)
    for _ in range(2):
        outcome = _attempt(call, state, clients, positions, number, round_, lambda: summing)
        if outcome is not None and outcome.took_part >= needed:
            round_.aggregation.check_measured(outcome.measurements)
            return outcome
        if summing is not None and summing.total is not None:  # of one work there is one sum
            break
    reasons = "; ".join(f"{name}: {why}" for name, why in outcome.left_out.items()) if outcome else "all failed"
    took_part = outcome.took_part if outcome else 0
    raise RunStopped(
        f"round {number}: only {took_part} of {len(positions)} clients could take part, {needed} needed"
        f" ({'--min-clients' if needed == min_clients else '--aggregator'}); {reasons}."
        " Run the same command again to go on from the last finished round."
    )


def _attempt(
    call: Callable[[Sequence[int]], RoundResult], state: AnyState, clients: Sequence[Client], asked: Sequence[int],
    number: int, round_: Round, summing: Callable[[], Summing | None],
) -> Outcome | None:  # fmt: skip
    left_out: dict[str, str] = {}
    present = list(asked)
    while present:
        result, present, failed = call_without_failing(call, present, f"round {number}")
        left_out.update({clients[position].name: why for position, why in failed.items()})
        if result is None:
            break
        done = summing()
        if done is not None:
            return _outcome_of_sum(result, clients, present, left_out, done, number)
        outcome = _outcome(result, clients, present, left_out, round_.columns, round_.withholds_loss)
        if outcome.took_part == len(present) or not round_.aggregation.adaptive:
            return outcome
        present = [position for position in present if clients[position].name in outcome.reports]
    return Outcome(state, 0, float("nan"), 0, left_out, {}, None) if left_out else None


def call_without_failing(
    call: Callable[[Sequence[int]], Result], positions: Sequence[int], what: str
) -> tuple[Result | None, list[int], dict[int, str]]:
    """Calls with these clients, and again without those whose work fails.

    Returns what came of it, None if nobody is left; who took part; who failed, and why. A failure that is no client's
    stops the run; `what` is what failed then.
    """
    present = list(positions)
    failed: dict[int, str] = {}
    while present:
        try:
            return call(present), present, failed
        except ClientError as error:
            failing = {present[client]: why for client, why in error.reasons.items()}
        except RunStopped as error:
            if not failed:
                raise
            raise RunStopped(f"{what}: {error} {'; '.join(failed.values())}") from error
        except Exception as error:
            failing = _failing_alone(call, present)
            if not failing:
                raise RunStopped(f"{what} failed: {_first_line(error)}") from error
        for position, why in failing.items():
            failed[position] = f"failed: {_first_line(why)}"
            present.remove(position)
    return None, [], failed


def _failing_alone(call: Callable[[Sequence[int]], Any], present: list[int]) -> dict[int, str]:
    """An engine that does not say whose work failed: a federation of one tells."""
    failed = {}
    for position in present:
        try:
            call([position])
        except Exception as error:
            failed[position] = str(error)
    return failed


def _outcome(
    result: RoundResult,
    clients: Sequence[Client],
    present: Sequence[int],
    left_out: dict[str, str],
    columns: Sequence[str],
    withheld: bool,
) -> Outcome:
    reports = {}
    for row in np.asarray(result.reports, np.float64):
        report = dict(zip(columns, row.tolist()))
        if withheld:
            report["loss"] = float("nan")
        name = clients[int(report["client"])].name
        if report["ok"]:
            reports[name] = report
        else:
            left_out[name] = "update is not finite" if report["examples"] else "no usable examples"
    examples = [report["examples"] for report in reports.values()]
    losses = [report["loss"] for report in reports.values()]
    mean = float(np.average(losses, weights=examples)) if reports and not withheld else float("nan")
    return Outcome(
        state=result.state,
        examples=int(sum(examples)),
        loss=mean,
        took_part=len(reports),
        left_out=left_out,
        reports=reports,
        measurements=result.measurements,
        kept={
            position: functools.partial(_arrays, value)
            for position, value in zip(present, result.kept)
            if clients[position].name in reports
        },
    )


def summing_of(aggregation: Aggregation | None, clients: Sequence[Client]) -> Summing | None:
    """What these clients' sites are to make of their answers; None where the coordinator sees them as they are."""
    if aggregation is None or all(client.site == HERE for client in clients):
        return None
    if sums.masked(aggregation) and len(clients) < LEAST_MEMBERS:
        raise RunStopped(
            f"--aggregator {aggregation.aggregator}: {len(clients)} sites are left, and a sum that tells on nobody"
            f" takes {LEAST_MEMBERS}. Run the same command again when more are there."
        )
    return sums.summing(aggregation)


def summed_if(summing: Summing | None) -> contextlib.AbstractContextManager[Any]:
    return contextlib.nullcontext() if summing is None else summed(summing)


def _outcome_of_sum(
    result: RoundResult, clients: Sequence[Client], present: Sequence[int], left_out: dict[str, str], done: Summing,
    number: int,
) -> Outcome:  # fmt: skip
    """Who sent something is known, and what comes of all of it."""
    left_out.update({clients[present[place]].name: f"failed: {_first_line(why)}" for place, why in done.lost.items()})
    there = [present[place] for place in done.present]
    sums.check_total(done, [clients[position].examples for position in there], SECURE_BOUND, f"round {number}")
    count, examples, loss = sums.took_part(done, result.reports)
    if count < len(there):
        left_out[f"{len(there) - count} of the sites"] = "no usable examples or an update that is not finite"
    unknown = {"ok": 1.0, "examples": float("nan"), "loss": float("nan")}
    return Outcome(
        state=result.state,
        examples=examples,
        loss=loss,
        took_part=count,
        left_out=left_out,
        reports={clients[position].name: {"client": float(position), **unknown} for position in there},
        measurements=result.measurements,
    )


def _arrays(value: Any) -> list[np.ndarray]:
    """What a client keeps, as an engine gives it."""
    return [np.asarray(array) for array in (value.make() if isinstance(value, Deferred) else value)]


def _first_line(message: object) -> str:
    return (str(message).strip().splitlines() or ["no message"])[0][:300]
