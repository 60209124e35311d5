"""The frameworks as federations: who holds which data, which method runs, for how many rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import tensorflow as tf

from tffapps.data import oai
from tffapps.data.pool import Pool
from tffapps.engine.values import HERE
from tffapps.federated.cohort import Client, stream
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fixmatch import PartlyLabelledData
from tffapps.federated.local import Counted
from tffapps.federated.method import Method
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData
from tffapps.federated.pseudo_label_plus import GoldData, PseudoLabelPlus
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.tested import DataAndTest, TestedFedAvg, TestedFixMatch
from tffapps.inputs import Inputs
from tffapps.plfl import (
    CsflSettings,
    FssflSettings,
    GoldSettings,
    LocalSettings,
    PlflNetwork,
    PlflSettings,
    PlusSettings,
    TargetSettings,
    division,
)
from tffapps.settings import Flags

_SERVER_POSITION = 2  # of the server's random numbers; clients have the positions before and after it
M = TypeVar("M", bound=Method)


@dataclasses.dataclass(frozen=True)
class Federation:
    """What a framework is for one table and seed."""

    method: Method
    rounds: int
    task: Task
    clients: list[Client]
    settings: tuple[Any, ...]  # that it depends on, beside those that all frameworks do
    server_data: Callable[[int], GoldData] | None = None


@dataclasses.dataclass(frozen=True)
class _Divided:
    """The images as a seed divides them."""

    table: pd.DataFrame
    seed: int

    def rows(self, client: str, split: str) -> pd.DataFrame:
        return self.table[(self.table.client == client) & (self.table.split == split)]

    @property
    def gold(self) -> pd.DataFrame:
        """The server's training images."""
        return self.rows(oai.SERVER, "train")


@dataclasses.dataclass(frozen=True)
class _Passes:
    """How a client goes through its unlabelled images in a round."""

    epochs: int  # of training
    view: str = "training"  # that it trains on
    label_views: int = 0  # whose predictions are averaged for a label, beside that of the plain image


class Frameworks:
    """Makes federations of one network's inputs; tasks are shared, so that a round is built once."""

    def __init__(self, inputs: Inputs, pool: Pool, flags: Flags) -> None:
        self._inputs, self._pool, self._flags = inputs, pool, flags
        self._batch = flags[PlflNetwork].batch
        self._positions = stream_positions(division.clients(pool))
        batches = inputs.spec
        plain, unlabelled = Counted.spec(batches), UnlabelledData.spec(batches)
        partly = PartlyLabelledData.spec(batches)
        gold = GoldData.spec(batches) if flags[PseudoLabelPlus].server_epochs else None
        self._tasks = {
            "gold": Task(inputs.model, plain, cross_entropy),
            "csfl": Task(inputs.model, DataAndTest.spec(plain, batches), cross_entropy),
            "plfl": Task(inputs.model, unlabelled, cross_entropy),
            "plfl+": Task(inputs.model, unlabelled, cross_entropy, gold),
            "fssfl": Task(inputs.model, DataAndTest.spec(partly, batches), cross_entropy),
        }

    def prepare(self, name: str, table: pd.DataFrame) -> None:
        """Stored features, all at once and not in the middle of a round."""
        self._inputs.prepare(list(table.path), "plain")
        trained = table[table.split == "train"]
        if name == "fssfl":
            self._inputs.prepare(list(trained.path[trained.client != oai.SERVER]), "weak", "strong")
        if name == "plfl+":
            self._inputs.prepare(list(trained.path), self.plus_view())

    def of(self, name: str, table: pd.DataFrame, seed: int) -> Federation:
        """A framework over a table that `division.split` (and perhaps the poisoner) made."""
        make = {
            "gold": self._gold,
            "csfl": self._csfl,
            "plfl": self._plfl,
            "plfl+": self._plus,
            "fssfl": self._fssfl,
        }[name]
        return make(_Divided(table, seed))

    def _gold(self, images: _Divided) -> Federation:
        settings = self._flags[GoldSettings]

        def data(number: int) -> Counted:
            return self._training(images.gold, settings.gold_epochs, stream(images.seed, number, _SERVER_POSITION))

        client = Client(oai.SERVER, data, site=HERE)
        return Federation(self._method(FedAvg), 1, self._tasks["gold"], [client], (settings,))

    def _csfl(self, images: _Divided) -> Federation:
        settings, local = self._flags[CsflSettings], self._flags[LocalSettings]

        def data(client: str, position: int) -> Callable[[int], DataAndTest]:
            train, test = images.rows(client, "train"), images.rows(client, "test")
            return lambda number: DataAndTest(
                self._training(train, local.epochs, stream(images.seed, number, position)), self.plain(test)
            )

        return Federation(
            self._method(TestedFedAvg), settings.csfl_rounds, self._tasks["csfl"], self._clients(data),
            (settings, local),
        )  # fmt: skip

    def _plfl(self, images: _Divided) -> Federation:
        settings, local = self._flags[PlflSettings], self._flags[LocalSettings]
        method = self._method(PseudoLabel)
        if settings.server_in_average:
            # In the clients' measure: images times epochs.
            method = dataclasses.replace(method, server_examples=float(len(images.gold) * local.epochs))
        return Federation(
            method, settings.plfl_rounds, self._tasks["plfl"], self._labellers(images, _Passes(local.epochs)),
            (settings, local, self._flags[TargetSettings]),
        )  # fmt: skip

    def _plus(self, images: _Divided) -> Federation:
        settings, method, view = self._flags[PlusSettings], self._flags[PseudoLabelPlus], self.plus_view()
        gold, prior = images.gold, self._prior(images.gold)
        # Where nothing is augmented, another view would be the same image again.
        label_views = settings.label_views if self._inputs.augments(view) else 0

        def server_data(number: int) -> GoldData:
            draws = stream(images.seed, number, _SERVER_POSITION)
            training = self._training(gold, method.server_epochs, draws, view)
            return GoldData(training.batches, training.steps, prior)

        return Federation(
            method, settings.plus_rounds, self._tasks["plfl+"],
            self._labellers(images, _Passes(settings.plus_epochs, view, label_views)),
            (settings, self._flags[TargetSettings]), server_data if method.server_epochs else None,
        )  # fmt: skip

    def _fssfl(self, images: _Divided) -> Federation:
        settings, local = self._flags[FssflSettings], self._flags[LocalSettings]

        def data(client: str, position: int) -> Callable[[int], DataAndTest]:
            train, test = images.rows(client, "train"), images.rows(client, "test")
            return lambda number: DataAndTest(
                self._partly_labelled(train, stream(images.seed, number, position)), self.plain(test)
            )

        return Federation(
            self._method(TestedFixMatch), settings.fssfl_rounds, self._tasks["fssfl"], self._clients(data),
            (settings, local),
        )  # fmt: skip

    def plus_view(self) -> str:
        """What PLFL+ trains on: with a frozen base that sees plain images, affine views of them."""
        plain = self._inputs.frozen and not self._inputs.augments("training")
        return "affine" if plain and self._flags[PlusSettings].plus_views else "training"

    def plain(self, rows: pd.DataFrame) -> tf.data.Dataset:
        """Rows in order, once, as they are: for tests."""
        return self._inputs.batches(list(rows.path), self._pool.codes(rows), batch=self._batch, shuffle=False)

    def _training(self, rows: pd.DataFrame, epochs: int, seed: int, view: str = "training") -> Counted:
        batches = self._inputs.batches(
            list(rows.path), self._pool.codes(rows), view, batch=self._batch, epochs=epochs, seed=seed
        )
        return Counted(batches, np.int32(epochs * -(-len(rows) // self._batch)))

    def _labellers(self, images: _Divided, passes: _Passes) -> list[Client]:
        """Clients that label their own images."""
        prior = self._prior(images.gold)
        return self._clients(
            lambda client, position: self._unlabelled(
                images.rows(client, "train"), prior, passes, lambda number: stream(images.seed, number, position)
            )
        )

    def _unlabelled(
        self, rows: pd.DataFrame, prior: np.ndarray, passes: _Passes, draws_of: Callable[[int], int]
    ) -> Callable[[int], UnlabelledData]:
        paths, numbers, batch = list(rows.path), np.arange(len(rows)), self._batch

        def data(number: int) -> UnlabelledData:
            draws = draws_of(number)
            labelling = plain = self._inputs.batches(paths, numbers, batch=batch, shuffle=False)
            if passes.label_views:
                views = self._inputs.batches(
                    paths, numbers, passes.view, batch=batch, epochs=passes.label_views, seed=draws + 1, shuffle=False
                )
                labelling = plain.concatenate(views)
            return UnlabelledData(
                labelling,
                plain,
                self._inputs.batches(paths, numbers, passes.view, batch=batch, epochs=passes.epochs, seed=draws),
                self._pool.codes(rows),
                np.int32(passes.epochs),
                np.random.default_rng(draws).random(len(rows), dtype=np.float32),
                prior,
            )

        return data

    def _partly_labelled(self, rows: pd.DataFrame, seed: int) -> PartlyLabelledData:
        settings, epochs = self._flags[FssflSettings], self._flags[LocalSettings].epochs
        known, unknown = rows[rows.labelled], rows[~rows.labelled]
        batch = settings.labelled_batch
        labelled = self._inputs.batches(
            list(known.path), self._pool.codes(known), "weak", batch=batch, epochs=epochs, seed=seed
        )
        steps = epochs * -(-len(known) // batch)
        unlabelled_batch = batch * settings.mu
        passes = -(-steps // -(-len(unknown) // unlabelled_batch))

        def unlabelled(view: str) -> tf.data.Dataset:
            """The same order for both views; the two augmentations draw from the seed independently."""
            return self._inputs.batches(
                list(unknown.path), np.zeros(len(unknown)), view, batch=unlabelled_batch, epochs=passes, seed=seed + 1
            )

        pairs = tf.data.Dataset.zip((unlabelled("weak"), unlabelled("strong")))
        return PartlyLabelledData(labelled, pairs.map(lambda weak, strong: (weak[0], strong[0])), np.int32(steps))

    def _prior(self, gold: pd.DataFrame) -> np.ndarray:
        counts = np.bincount(self._pool.codes(gold), minlength=len(self._pool.classes))
        return (counts / counts.sum()).astype(np.float32)

    def _clients(self, data: Callable[[str, int], Callable[[int], Any]]) -> list[Client]:
        return [Client(name, data(name, position)) for name, position in self._positions.items()]

    def _method(self, kind: type[M]) -> M:
        """As its flags say; --average-from is PLFL+'s alone."""
        return dataclasses.replace(self._flags[kind], average_from=0)


def stream_positions(clients: Sequence[str]) -> dict[str, int]:
    """The position of each client's random numbers (`cohort.stream`): theirs go round the server's."""
    positions = [position for position in range(len(clients) + 1) if position != _SERVER_POSITION]
    return dict(zip(clients, positions))
