"""One round with the clients that can take part; the others are left out and named."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tffapps.engine.in_process import ClientError
from tffapps.engine.judging import judged
from tffapps.engine.values import AtSite, Deferred
from tffapps.errors import RunStopped
from tffapps.federated.judge import Judge
from tffapps.federated.round import AnyState, Round, RoundResult

Result = TypeVar("Result")
NOT_FINITE = "update is not finite"  # why a client was left out


@dataclasses.dataclass(frozen=True)
class Client:
    """A name and, for a round's number, that round's data: batches, or whatever the task's `client_spec` asks for."""

    name: str
    batches: Callable[[int], Any]
    # Where the data is, if the federation is across sites; None: the site of the same name; HERE: with the coordinator.
    site: str | None = None
    examples: int | None = None  # the most that it can have seen in a round, if that is known

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
    """
    positions = list(range(len(clients)) if asked is None else asked)

    def call(present: Sequence[int]) -> RoundResult:
        with judged(Judge.of_round(round_, state, present, [clients[position].examples for position in present])):
            return round_.next(
                state,
                list(present),
                [clients[position].data(number) for position in present],
                server_data=server_data(number) if server_data else None,
                kept=[Deferred(functools.partial(kept, position)) for position in present] if kept else None,
            )

    outcome, needed = None, max(min_clients, round_.aggregation.least_clients)
    for _ in range(2):
        outcome = _attempt(call, state, clients, positions, number, round_)
        if outcome is not None and outcome.took_part >= needed:
            round_.aggregation.check_measured(outcome.measurements)
            return outcome
    reasons = "; ".join(f"{name}: {why}" for name, why in outcome.left_out.items()) if outcome else "all failed"
    took_part = outcome.took_part if outcome else 0
    raise RunStopped(
        f"round {number}: only {took_part} of {len(positions)} clients could take part, {needed} needed"
        f" ({'--min-clients' if needed == min_clients else '--aggregator'}); {reasons}."
        " Run the same command again to go on from the last finished round."
    )


def _attempt(
    call: Callable[[Sequence[int]], RoundResult], state: AnyState, clients: Sequence[Client], asked: Sequence[int],
    number: int, round_: Round,
) -> Outcome | None:  # fmt: skip
    left_out: dict[str, str] = {}
    present = list(asked)
    while present:
        result, present, failed = call_without_failing(call, present, f"round {number}")
        left_out.update({clients[position].name: why for position, why in failed.items()})
        if result is None:
            break
        outcome = _outcome(result, clients, present, left_out, round_.columns)
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
) -> Outcome:
    reports = {}
    for row in np.asarray(result.reports, np.float64):
        report = dict(zip(columns, row.tolist()))
        name = clients[int(report["client"])].name
        if report["ok"]:
            reports[name] = report
        else:
            left_out[name] = NOT_FINITE if report["examples"] else "no usable examples"
    examples = [report["examples"] for report in reports.values()]
    losses = [report["loss"] for report in reports.values()]
    mean = float(np.average(losses, weights=examples)) if reports else float("nan")
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


def _arrays(value: Any) -> list[np.ndarray]:
    """What a client keeps, as an engine gives it."""
    return [np.asarray(array) for array in (value.make() if isinstance(value, Deferred) else value)]


def _first_line(message: object) -> str:
    return (str(message).strip().splitlines() or ["no message"])[0][:300]
