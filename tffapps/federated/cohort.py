"""One round with the clients that can take part; the others are left out and named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tffapps.engine.in_process import ClientError
from tffapps.errors import RunStopped
from tffapps.federated.round import REPORT_COLUMNS, Round, State


@dataclasses.dataclass(frozen=True)
class Client:
    """A name and, for a round's number, that round's batches."""

    name: str
    batches: Callable[[int], tf.data.Dataset]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one round did."""

    state: State
    examples: int
    loss: float  # mean over the examples of the clients that took part
    took_part: int
    left_out: dict[str, str]  # name -> why
    measurements: Any


def play(round_: Round, state: State, clients: Sequence[Client], number: int, min_clients: int) -> Outcome:
    """Plays a round; with fewer than `min_clients` good updates once more, then gives up."""
    outcome = None
    for _ in range(2):
        outcome = _attempt(round_, state, clients, number)
        if outcome is not None and outcome.took_part >= max(min_clients, 1):
            return outcome
    reasons = "; ".join(f"{name}: {why}" for name, why in outcome.left_out.items()) if outcome else "all failed"
    took_part = outcome.took_part if outcome else 0
    raise RunStopped(
        f"round {number}: only {took_part} of {len(clients)} clients could take part, {max(min_clients, 1)} needed"
        f" (--min-clients); {reasons}. Run the same command again to go on from the last finished round."
    )


def _attempt(round_: Round, state: State, clients: Sequence[Client], number: int) -> Outcome | None:
    left_out: dict[str, str] = {}
    present = list(range(len(clients)))
    while present:
        try:
            result = _call(round_, state, clients, present, number)
            return _outcome(result, clients, left_out)
        except ClientError as error:
            failed = {present[error.client]: str(error.__cause__)}
        except Exception as error:
            failed = _failing_alone(round_, state, clients, present, number)
            if not failed:
                raise RunStopped(f"round {number} failed: {_first_line(error)}") from error
        for position, why in failed.items():
            left_out[clients[position].name] = f"failed: {_first_line(why)}"
            present.remove(position)
    return Outcome(state, 0, float("nan"), 0, left_out, None) if left_out else None


def _call(round_: Round, state: State, clients: Sequence[Client], present: list[int], number: int) -> Any:
    datasets = [clients[position].batches(number) for position in present]
    return round_.next(state, present, datasets)


def _failing_alone(
    round_: Round, state: State, clients: Sequence[Client], present: list[int], number: int
) -> dict[int, str]:
    """An engine that does not say whose work failed: a federation of one tells."""
    failed = {}
    for position in present:
        try:
            _call(round_, state, clients, [position], number)
        except Exception as error:
            failed[position] = str(error)
    return failed


def _outcome(result: Any, clients: Sequence[Client], left_out: dict[str, str]) -> Outcome:
    state, reports, measurements = result
    table = dict(zip(REPORT_COLUMNS, np.asarray(reports, np.float64).T))
    ok = table["ok"] > 0
    for position, examples in zip(table["client"][~ok], table["examples"][~ok]):
        why = "update is not finite" if examples else "no readable examples"
        left_out[clients[int(position)].name] = why
    examples, losses = table["examples"][ok], table["loss"][ok]
    mean = float(np.average(losses, weights=examples)) if ok.any() else float("nan")
    return Outcome(state, int(examples.sum()), mean, int(ok.sum()), left_out, measurements)


def _first_line(message: object) -> str:
    return (str(message).strip().splitlines() or ["no message"])[0][:300]
