"""The frameworks as federations: who holds which data, which method runs, where it begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from tffapps.data import oai
from tffapps.engine.values import HERE
from tffapps.federated.cohort import Client, stream
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fixmatch import FixMatch, PartlyLabelledData
from tffapps.federated.local import Counted
from tffapps.federated.method import Method
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData
from tffapps.federated.pseudo_label_plus import GoldData, PseudoLabelPlus
from tffapps.federated.task import Task, cross_entropy
from tffapps.federated.tested import DataAndTest, Tested
from tffapps.inputs import Inputs
from tffapps.plfl import Settings
from tffapps.plfl.data import Pool
from tffapps.settings import pick

_SERVER_PLACE = 2  # whose random numbers are the server's, among those of the clients
SPLITS = {"gold": "plfl", "csfl": "csfl", "plfl": "plfl", "plfl+": "plfl", "fssfl": "fssfl"}


@dataclasses.dataclass(frozen=True)
class Federation:
    """All that `federated.training.train` needs of one framework and seed, but for the first weights."""

    method: Any  # for build_round
    rounds: int
    epochs: int
    task: Task
    clients: list[Client]
    server_data: Callable[[int], Any] | None = None


class Frameworks:
    """Makes federations of one network's inputs; tasks are shared, so that a round is built once."""

    def __init__(self, inputs: Inputs, pool: Pool, settings: Settings, values: dict[str, Any]):
        self._inputs, self._pool, self._settings, self._values = inputs, pool, settings, values
        batches = inputs.spec
        plain, unlabelled = Counted.spec(batches), UnlabelledData.spec(batches)
        partly = PartlyLabelledData.spec(batches)
        specs: dict[str, tuple[Any, Any]] = {
            "gold": (plain, None),
            "csfl": (DataAndTest.spec(plain, batches), None),
            "plfl": (unlabelled, None),
            "plfl+": (unlabelled, GoldData.spec(batches) if values["server_epochs"] else None),
            "fssfl": (DataAndTest.spec(partly, batches), None),
        }
        self._tasks = {name: Task(inputs.model, spec[0], cross_entropy, spec[1]) for name, spec in specs.items()}

    def prepare(self, name: str, table: pd.DataFrame) -> None:
        """Stored features, all at once and not in the middle of a round."""
        self._inputs.prepare(list(table.path), "plain")
        trained = table[table.split == "train"]
        if name == "fssfl":
            self._inputs.prepare(list(trained.path[trained.client != oai.SERVER]), "weak", "strong")
        if name == "plfl+":
            self._inputs.prepare(list(trained.path), self.plus_view())

    def of(self, name: str, table: pd.DataFrame, seed: int) -> Federation:
        """A framework over a table that `Pool.split` (and perhaps the poisoner) made."""
        make = {
            "gold": self._gold,
            "csfl": self._csfl,
            "plfl": self._plfl,
            "plfl+": self._plus,
            "fssfl": self._fssfl,
        }[name]
        return make(table, seed)

    def _gold(self, table: pd.DataFrame, seed: int) -> Federation:
        rows = _rows(table, oai.SERVER, "train")
        epochs = self._settings.gold_epochs
        client = Client(
            oai.SERVER, lambda number: self._training(rows, epochs, stream(seed, number, _SERVER_PLACE)), site=HERE
        )
        return Federation(self._method(FedAvg), 1, epochs, self._tasks["gold"], [client])

    def _csfl(self, table: pd.DataFrame, seed: int) -> Federation:
        epochs = self._settings.epochs

        def data(client: str, position: int) -> Callable[[int], DataAndTest]:
            train, test = (_rows(table, client, split) for split in ("train", "test"))
            return lambda number: DataAndTest(
                self._training(train, epochs, stream(seed, number, position)), self.plain(test)
            )

        method = Tested(self._method(FedAvg))
        return Federation(method, self._settings.csfl_rounds, epochs, self._tasks["csfl"], self._clients(data))

    def _plfl(self, table: pd.DataFrame, seed: int) -> Federation:
        epochs = self._settings.epochs
        method = self._method(PseudoLabel)
        if self._settings.server_in_average:
            # In the clients' measure: images times epochs.
            own = float(len(_rows(table, oai.SERVER, "train")) * epochs)
            method = dataclasses.replace(method, server_examples=own)
        clients = self._clients(lambda client, position: self._unlabelled(table, client, position, epochs, seed))
        return Federation(method, self._settings.plfl_rounds, epochs, self._tasks["plfl"], clients)

    def _plus(self, table: pd.DataFrame, seed: int) -> Federation:
        epochs, gold_epochs = self._settings.plus_epochs, self._values["server_epochs"]
        gold = _rows(table, oai.SERVER, "train")
        prior = self._prior(gold)

        view = self.plus_view()

        def server_data(number: int) -> GoldData:
            return GoldData(*self._training(gold, gold_epochs, stream(seed, number, _SERVER_PLACE), view), prior)

        views = self._settings.label_views
        clients = self._clients(
            lambda client, position: self._unlabelled(table, client, position, epochs, seed, view, views)
        )
        return Federation(
            self._method(PseudoLabelPlus), self._settings.plus_rounds, epochs, self._tasks["plfl+"], clients,
            server_data if gold_epochs else None,
        )  # fmt: skip

    def _fssfl(self, table: pd.DataFrame, seed: int) -> Federation:
        settings = self._settings

        def data(client: str, position: int) -> Callable[[int], DataAndTest]:
            train, test = (_rows(table, client, split) for split in ("train", "test"))
            known, unknown = train[train.labelled], train[~train.labelled]
            return lambda number: DataAndTest(
                self._partly_labelled(known, unknown, stream(seed, number, position)), self.plain(test)
            )

        method = Tested(self._method(FixMatch))
        return Federation(method, settings.fssfl_rounds, settings.epochs, self._tasks["fssfl"], self._clients(data))

    def plus_view(self) -> str:
        """What PLFL+ trains on: with a frozen base that sees plain images, affine views of them."""
        plain = self._inputs.frozen and not self._inputs.augments("training")
        return "affine" if plain and self._settings.plus_views else "training"

    def plain(self, rows: pd.DataFrame) -> tf.data.Dataset:
        """Rows in order, once, as they are: for tests."""
        return self._inputs.batches(list(rows.path), self._pool.codes(rows), batch=self._settings.batch, shuffle=False)

    def _training(self, rows: pd.DataFrame, epochs: int, seed: int, view: str = "training") -> Counted:
        batch = self._settings.batch
        batches = self._inputs.batches(
            list(rows.path), self._pool.codes(rows), view, batch=batch, epochs=epochs, seed=seed
        )
        return Counted(batches, np.int32(epochs * -(-len(rows) // batch)))

    def _unlabelled(
        self,
        table: pd.DataFrame,
        client: str,
        position: int,
        epochs: int,
        seed: int,
        view: str = "training",
        label_views: int = 0,
    ) -> Callable[[int], UnlabelledData]:
        rows = _rows(table, client, "train")
        paths, numbers, batch = list(rows.path), np.arange(len(rows)), self._settings.batch
        prior = self._prior(_rows(table, oai.SERVER, "train"))
        # Where nothing is augmented, another view would be the same image again.
        label_views = label_views if self._inputs.augments(view) else 0

        def data(number: int) -> UnlabelledData:
            draws = stream(seed, number, position)
            labelling = plain = self._inputs.batches(paths, numbers, batch=batch, shuffle=False)
            if label_views:
                views = self._inputs.batches(
                    paths, numbers, view, batch=batch, epochs=label_views, seed=draws + 1, shuffle=False
                )
                labelling = plain.concatenate(views)
            return UnlabelledData(
                labelling,
                plain,
                self._inputs.batches(paths, numbers, view, batch=batch, epochs=epochs, seed=draws),
                self._pool.codes(rows),
                np.int32(epochs),
                np.random.default_rng(draws).random(len(rows), dtype=np.float32),
                prior,
            )

        return data

    def _partly_labelled(self, known: pd.DataFrame, unknown: pd.DataFrame, seed: int) -> PartlyLabelledData:
        settings, epochs = self._settings, self._settings.epochs
        batch = settings.labelled_batch
        labelled = self._inputs.batches(
            list(known.path), self._pool.codes(known), "weak", batch=batch, epochs=epochs, seed=seed
        )
        steps = epochs * -(-len(known) // batch)
        unlabelled_batch = batch * settings.mu
        passes = -(-steps // -(-len(unknown) // unlabelled_batch))
        # The same order for both views; the two augmentations draw from the seed independently.
        weak, strong = (
            self._inputs.batches(
                list(unknown.path), np.zeros(len(unknown)), view, batch=unlabelled_batch, epochs=passes, seed=seed + 1
            )
            for view in ("weak", "strong")
        )
        pairs = tf.data.Dataset.zip((weak, strong)).map(lambda first, second: (first[0], second[0]))
        return PartlyLabelledData(labelled, pairs, np.int32(steps))

    def _prior(self, gold: pd.DataFrame) -> np.ndarray:
        counts = np.bincount(self._pool.codes(gold), minlength=len(self._pool.classes))
        return (counts / counts.sum()).astype(np.float32)

    def _clients(self, data: Callable[[str, int], Callable[[int], Any]]) -> list[Client]:
        names = enumerate(self._pool.clients)
        return [Client(name, data(name, place + (place >= _SERVER_PLACE))) for place, name in names]

    def _method(self, kind: type[Method]) -> Any:
        return pick(kind, self._values)


def _rows(table: pd.DataFrame, client: str, split: str) -> pd.DataFrame:
    return table[(table.client == client) & (table.split == split)]
