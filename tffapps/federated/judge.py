"""What clients at sites answer, judged by the coordinator before it is aggregated.

What a client does about its own update (leave itself out if it is not finite, count its examples) is part of the
computation that the site runs, so a site that lies passes it. Here the same is looked at again, of every answer:

    finite       all numbers, but for the loss of a client that left itself out
    its number   the report is the client's own
    its weight   as many examples as it reports, and no more than it can have
    its length   of an update that is seen as it is: not far beyond both the weights it belongs to and the cohort

The last is for what is plainly no training: aggregators that stand up to more are in `row_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tffapps.engine.judging import Answer
from tffapps.engine.values import flatten

if TYPE_CHECKING:
    from tffapps.federated.round import AnyState, Round

FAR = 100.0  # times the cohort's median length
_REPORT, _WEIGHT, _UPDATE = "report", "weight", "update"
_SENT = (_UPDATE, "gathered", "moments")  # what a client that left itself out sends zeros for


class Judge:
    """Of one cohort.

    Args:
      positions: the clients' numbers, which their reports must carry.
      examples: the most that each can have, if that is known.
      raw: whether updates are seen as they are.
      weights: of the global model, in the parts of an update: for its length.
      weighed: whether clients count by a weight of their own, from 0 to 1, and not by their examples.
    """

    def __init__(
        self,
        positions: Sequence[int],
        examples: Sequence[int | None],
        *,
        raw: bool,
        weights: Mapping[str, Sequence[Any]] | None = None,
        weighed: bool = False,
    ) -> None:
        self._weighed = weighed
        self._positions, self._examples, self.raw = list(positions), list(examples), raw
        self._lengths = {part: _length(values) for part, values in (weights or {}).items()}

    @classmethod
    def of_round(
        cls, round_: Round, state: AnyState, positions: Sequence[int], examples: Sequence[int | None]
    ) -> Judge:
        sent = round_.method.sends_weights
        parts = {"trained": round_.layout.trained(state.weights), "statistics": round_.layout.statistics(state.weights)}
        return cls(
            positions,
            examples,
            raw=round_.aggregation.seen,
            weights=parts if sent else None,
            weighed=round_.method.weighs_clients,
        )

    def __call__(self, answers: Mapping[int, Answer]) -> dict[int, str]:
        arrays = {client: _Arrays(answer) for client, answer in answers.items()}
        wrong = {client: self._wrong(client, of) for client, of in arrays.items()}
        good = {client: of for client, of in arrays.items() if not wrong[client] and of.ok}
        for part, reference in self._lengths.items():
            wrong.update(_too_long(good, part, reference))
        return {client: why for client, why in wrong.items() if why}

    def _wrong(self, client: int, answer: _Arrays) -> str:
        for name, values in answer.parts:
            if name != _REPORT and not all(map(_is_finite, values)):
                return f"its {name or _UPDATE} is not finite"
        for report in answer.of(_REPORT):
            position, ok, examples = report[:3].tolist()
            if position != self._positions[client]:
                return f"it reports as client {position:g}, and is client {self._positions[client]}"
            if ok not in (0.0, 1.0) or not 0 <= examples < np.inf or (ok and not _is_finite(report)):
                return "its report is none"
            most = self._examples[client]
            if most is not None and examples > most:
                return f"it reports {examples:g} examples, and can have {most} at most"
            for weight in answer.of(_WEIGHT):
                if self._weighed and not 0 <= weight <= ok:
                    return f"its weight is {float(weight):g}, and 0 to 1 can be right"
                if not self._weighed and weight != examples * ok:
                    return f"its weight is {float(weight):g}, and it reports {examples:g} examples"
            if not ok and any(value.any() for name in _SENT for value in answer.of(name)):
                return "it reports that it left itself out, and sends an update"
        return ""


class _Arrays:
    """One client's answer as arrays."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.parts = [(name, [tensor.numpy() for tensor in flatten(value)]) for name, value in answer]

    def of(self, name: str) -> list[np.ndarray]:
        return [value for found, values in self.parts if found == name for value in values]

    @property
    def ok(self) -> bool:
        return all(report[1] for report in self.of(_REPORT))

    @property
    def examples(self) -> float:
        return max([1.0, *(float(report[2]) for report in self.of(_REPORT))])

    def length(self, part: str) -> float:
        """Of a part of its update; 0 where updates are not seen."""
        updates = [getattr(value, part) for name, value in self._answer if name == _UPDATE]
        return _length([tensor.numpy() for update in updates for tensor in flatten(update)])


def _too_long(answers: Mapping[int, _Arrays], part: str, reference: float) -> dict[int, str]:
    """Who has trained on more images may have gone farther; of two clients the nearer one is the median."""
    lengths = {client: answer.length(part) for client, answer in answers.items()}
    moved = sorted(length for length in lengths.values() if length > 0)
    if not moved:
        return {}
    middle = moved[(len(moved) - 1) // 2]
    examples = sorted(answer.examples for answer in answers.values())
    usual = examples[(len(examples) - 1) // 2]
    wrong = {}
    for client, answer in answers.items():
        bound = max(FAR * middle * max(1.0, answer.examples / usual), reference)
        if lengths[client] > bound:
            wrong[client] = f"its update has the length {lengths[client]:.3g}, at most {bound:.3g} can be right"
    return wrong


def _length(values: Sequence[Any]) -> float:
    return float(np.sqrt(sum(float(np.square(np.asarray(value, np.float64)).sum()) for value in values)))


def _is_finite(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
