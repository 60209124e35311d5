"""Trials of the methods that learn from unlabelled images: their tasks, and what clients and the server train with.

An epoch of a client is its unlabelled images once; with every batch of them comes a smaller one of labelled images, of
clients that know some. Where the labels are the server's, it trains as many epochs on them after every average as
clients do on theirs, and the first round is its own: until it has trained, clients look on (`TwoViewData.number` is 0).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tffapps import PLAIN, Client, Pool, Task, cross_entropy, stream
from tffapps.classify.labels import Divided, codes_of
from tffapps.federated.anchored import GoldData
from tffapps.federated.few_labels import TwoViewData
from tffapps.federated.method import Method
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData
from tffapps.inputs import TRAINING, Inputs
from tffapps.two_views import VIEWS, Share, smoothed, two_views


class FewLabelTrials:
    """Of one network; tasks are shared, so that a round is built once."""

    def __init__(self, inputs: Inputs, pool: Pool, batch: int, ratio: int) -> None:
        """`batch`: unlabelled images a step; `ratio`: of them, for each labelled one."""
        self._inputs, self._pool, self._batch, self._labelled_batch = inputs, pool, batch, max(1, batch // ratio)
        self._tasks: dict[tuple[bool, bool], Task] = {}

    def task(self, method: Method, at_server: bool) -> Task:
        by_label = isinstance(method, PseudoLabel)
        if (by_label, at_server) not in self._tasks:
            spec = self._inputs.spec
            data: Any = UnlabelledData.spec(spec) if by_label else TwoViewData.spec(spec)
            gold = GoldData.spec(spec) if at_server else None
            self._tasks[by_label, at_server] = Task(self._inputs.model, data, cross_entropy, gold)
        return self._tasks[by_label, at_server]

    def clients(
        self, method: Method, divided: Divided, judged: pd.DataFrame, seed: int, epochs: int
    ) -> Sequence[Client]:
        """One for each that has unlabelled images, features stored, and those of what is `judged`."""
        rows = pd.concat([*divided.known.values(), *divided.unknown.values()])
        self._inputs.prepare(list(rows.path), *VIEWS, PLAIN, TRAINING)
        self._inputs.prepare(list(judged.path), PLAIN)
        make = self._labelling if isinstance(method, PseudoLabel) else self._two_views
        return [
            Client(client, functools.partial(make, divided, client, (seed, position), epochs))
            for position, client in enumerate(divided.unknown)
        ]

    def server_data(self, divided: Divided, seed: int, epochs: int) -> Callable[[int], GoldData] | None:
        """Of a round, where the labels are the server's."""
        rows = divided.at_server
        if rows is None:
            return None
        codes = self._pool.codes(rows)
        steps, prior = np.int32(epochs * -(-len(rows) // self._batch)), self._prior(codes)

        def of_round(number: int) -> GoldData:
            drawn = stream(seed, number, len(divided.unknown))  # behind the clients'
            batches = self._inputs.batches(
                list(rows.path), codes, TRAINING, batch=self._batch, epochs=epochs, seed=drawn
            )
            return GoldData(batches, steps, prior)

        return of_round

    def _two_views(
        self, divided: Divided, client: str, place: tuple[int, int], epochs: int, number: int
    ) -> TwoViewData:
        unknown, at_server = divided.unknown[client], divided.at_server is not None
        known = unknown[:0] if at_server else divided.known[client]
        share = Share(
            list(known.path), self._pool.codes(known), list(unknown.path),
            epochs * -(-len(unknown) // self._batch), min(self._labelled_batch, max(1, len(known))), self._batch,
        )  # fmt: skip
        prior = self._prior(codes_of(self._pool, divided.known if at_server else {client: known}))
        drawn = stream(place[0], number, place[1])
        return two_views(self._inputs, share, prior, number=number - at_server, seed=drawn)

    def _labelling(
        self, divided: Divided, client: str, place: tuple[int, int], epochs: int, number: int
    ) -> UnlabelledData:
        rows, drawn = divided.unknown[client], stream(place[0], number, place[1])
        paths, numbers = list(rows.path), np.arange(len(rows))
        plain: Any = self._inputs.batches(paths, numbers, batch=self._batch, shuffle=False)
        return UnlabelledData(
            plain,
            plain,
            self._inputs.batches(paths, numbers, TRAINING, batch=self._batch, epochs=epochs, seed=drawn),
            self._pool.codes(rows),  # for the report alone
            np.int32(epochs),
            np.random.default_rng(drawn).random(len(rows), dtype=np.float32),
            self._prior(codes_of(self._pool, divided.known)),
        )

    def _prior(self, codes: np.ndarray) -> np.ndarray:
        return smoothed(codes, len(self._pool.classes))
