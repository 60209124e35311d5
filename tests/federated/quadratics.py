"""Clients whose losses are parabolas: the optimum of their sum, and where FedAvg ends instead, are known numbers.

The model is w · x; a client's examples are all (√a, b · √a), its loss a/2 · (w − b)², and a step takes w to
w − rate · a · (w − b). A client counts by its examples, which are its steps times the size of its batches.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import tensorflow as tf

from tests.federated.line import SPEC
from tffapps.engine import open_engine
from tffapps.federated.cohort import Client, play
from tffapps.federated.round import build_round
from tffapps.federated.task import Task

START = -3.0


@dataclasses.dataclass(frozen=True)
class Parabola:
    curvature: float
    lowest: float  # where the client's loss is 0
    steps: int
    size: int

    @property
    def examples(self) -> int:
        return self.steps * self.size

    def batches(self) -> tf.data.Dataset:
        x = np.full((self.size, 1), np.sqrt(self.curvature), np.float32)
        return tf.data.Dataset.from_tensors((x, (x * self.lowest)[:, 0])).repeat(self.steps)


# Unequal in all respects; together they weigh 8, 16 and 8 examples.
UNEQUAL = (Parabola(1.0, 0.0, 2, 4), Parabola(4.0, 3.0, 8, 2), Parabola(2.0, -1.0, 4, 2))
EQUAL_STEPS = tuple(dataclasses.replace(each, steps=4) for each in UNEQUAL)


def optimum(clients: Sequence[Parabola]) -> float:
    """Of the sum of the losses of all examples."""
    weights = [each.examples * each.curvature for each in clients]
    return float(np.average([each.lowest for each in clients], weights=weights))


def fixed_point(clients: Sequence[Parabola], rate: float, per_step: bool = False) -> float:
    """Where the mean of the clients' updates is 0: FedAvg's, or that of updates divided by their steps."""
    moved = [1 - (1 - rate * each.curvature) ** each.steps for each in clients]
    weights = [each.examples * share / (each.steps if per_step else 1) for each, share in zip(clients, moved)]
    return float(np.average([each.lowest for each in clients], weights=weights))


def next_by_hand(clients: Sequence[Parabola], rate: float, w: float) -> float:
    """What one round of FedAvg makes of w."""
    ends = [each.lowest + (1 - rate * each.curvature) ** each.steps * (w - each.lowest) for each in clients]
    return float(np.average(ends, weights=[each.examples for each in clients]))


@functools.cache
def task() -> Task:
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1, use_bias=False)])
    return Task.of_batches(model, SPEC, lambda labels, outputs: (outputs[:, 0] - labels) ** 2 / 2)


@functools.cache
def round_of(method, aggregation=None):
    return build_round(task(), method, aggregation, clients=len(UNEQUAL))


def played(
    method,
    clients: Sequence[Parabola] = UNEQUAL,
    rounds: int = 1,
    *,
    away: Mapping[int, Collection[int]] | None = None,
    start: float = START,
    aggregation=None,
) -> list[float]:
    """w after every round; `away` says which clients have no data in which round."""
    away, round_, first = away or {}, round_of(method, aggregation), [np.array([[start]], np.float32)]

    def of(place: int):
        batches = clients[place].batches()
        return Client(f"{place}", lambda number: batches.take(0) if place in away.get(number, ()) else batches)

    federation = [of(place) for place in range(len(clients))]
    kept = dict.fromkeys(range(len(clients)), round_.first_kept(first))
    found = []
    with open_engine("in-process"):
        state = round_.start(first)
        for number in range(1, rounds + 1):
            outcome = play(round_, state, federation, number, 1, kept=kept.__getitem__)
            state, kept = outcome.state, {**kept, **{place: one() for place, one in outcome.kept.items()}}
            found.append(float(state.weights[0][0, 0]))
    return found
