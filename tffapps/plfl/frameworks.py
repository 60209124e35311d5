"""The frameworks as federations: who holds which data, which method runs, for how many rounds."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import tensorflow as tf

from tffapps import Client, FedAvg, Flags, Inputs, Method, Pool, Task, cross_entropy, stream
from tffapps.data import oai
from tffapps.engine.values import HERE
from tffapps.federated.few_labels import TwoViewData
from tffapps.federated.fixmatch import PartlyLabelledData
from tffapps.federated.local import Counted
from tffapps.federated.methods import FEW_LABELS
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData
from tffapps.federated.pseudo_label_plus import GoldData, PseudoLabelPlus
from tffapps.federated.tested import (
    DataAndTest,
    TestedFedAvg,
    TestedFixMatch,
    TestedFlexMatch,
    TestedFreeMatch,
    TestedMendedFixMatch,
)
from tffapps.plfl import (
    ALTERNATE,
    FIXMATCHES,
    AlternateSettings,
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
from tffapps.two_views import VIEWS, Share, smoothed, two_views

_MENDED: dict[str, type[Method]] = dict(zip(FIXMATCHES, (TestedMendedFixMatch, TestedFlexMatch, TestedFreeMatch)))
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
class _Images:
    """Who has which, as a seed divides them."""

    table: pd.DataFrame
    seed: int

    def rows(self, client: str, split: str = "train") -> pd.DataFrame:
        return self.table[(self.table.client == client) & (self.table.split == split)]


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
        two = TwoViewData.spec(batches)
        mended = Task(inputs.model, DataAndTest.spec(two, batches), cross_entropy)
        alternate = Task(inputs.model, two, cross_entropy, GoldData.spec(batches))
        self._tasks = {
            **dict.fromkeys(FIXMATCHES, mended),
            **dict.fromkeys(ALTERNATE, alternate),
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
        if name == "fssfl" or name in _MENDED or name in ALTERNATE:
            self._inputs.prepare(list(trained.path[trained.client != oai.SERVER]), *VIEWS)
        if name == "plfl+":
            self._inputs.prepare(list(trained.path), self.plus_view())

    def of(self, name: str, table: pd.DataFrame, seed: int) -> Federation:
        """A framework over a table that `division.split` (and perhaps the poisoner) made."""
        if name in _MENDED:
            return self._mended(name, _Images(table, seed))
        if name in ALTERNATE:
            return self._alternate(name, _Images(table, seed))
        make = {
            "gold": self._gold,
            "csfl": self._csfl,
            "plfl": self._plfl,
            "plfl+": self._plus,
            "fssfl": self._fssfl,
        }[name]
        return make(_Images(table, seed))

    def _gold(self, images: _Images) -> Federation:
        settings = self._flags[GoldSettings]
        training = self._at_server(images, settings.gold_epochs)
        client = Client(oai.SERVER, training, site=HERE, passes=settings.gold_epochs)
        return Federation(self._method(FedAvg), 1, self._tasks["gold"], [client], (settings,))

    def _csfl(self, images: _Images) -> Federation:
        settings, local = self._flags[CsflSettings], self._flags[LocalSettings]
        clients = self._tested(images, lambda rows, seed: self._training(rows, local.epochs, seed), local.epochs)
        return Federation(
            self._method(TestedFedAvg), settings.csfl_rounds, self._tasks["csfl"], clients, (settings, local)
        )

    def _plfl(self, images: _Images) -> Federation:
        settings, local = self._flags[PlflSettings], self._flags[LocalSettings]
        method = self._method(PseudoLabel)
        if settings.server_in_average:
            # In the clients' measure: images times epochs.
            method = dataclasses.replace(method, server_examples=float(len(images.rows(oai.SERVER)) * local.epochs))
        clients = self._labelling(images, _Passes(local.epochs))
        depends = (settings, local, self._flags[TargetSettings])
        return Federation(method, settings.plfl_rounds, self._tasks["plfl"], clients, depends)

    def _plus(self, images: _Images) -> Federation:
        settings, method, view = self._flags[PlusSettings], self._flags[PseudoLabelPlus], self.plus_view()
        # Where nothing is augmented, another view would be the same image again.
        label_views = settings.label_views if self._inputs.augments(view) else 0
        clients = self._labelling(images, _Passes(settings.plus_epochs, view, label_views))
        training, prior = self._at_server(images, method.server_epochs, view), self._prior(images)

        def server_data(number: int) -> GoldData:
            batches, steps = training(number)
            return GoldData(batches, steps, prior)

        return Federation(
            method, settings.plus_rounds, self._tasks["plfl+"], clients, (settings, self._flags[TargetSettings]),
            server_data if method.server_epochs else None,
        )  # fmt: skip

    def _fssfl(self, images: _Images) -> Federation:
        settings, local = self._flags[FssflSettings], self._flags[LocalSettings]
        clients = self._tested(images, self._partly_labelled)
        return Federation(
            self._method(TestedFixMatch), settings.fssfl_rounds, self._tasks["fssfl"], clients, (settings, local)
        )

    def _mended(self, name: str, images: _Images) -> Federation:
        """FSSFL's data under another rule for what is believed."""
        settings, local = self._flags[FssflSettings], self._flags[LocalSettings]

        def training(number: int, rows: pd.DataFrame, seed: int) -> TwoViewData:
            known, unknown = rows[rows.labelled], rows[~rows.labelled]
            batch, codes = settings.labelled_batch, self._pool.codes(known)
            steps = local.epochs * -(-len(known) // batch)
            share = Share(list(known.path), codes, list(unknown.path), steps, batch, batch * settings.mu)
            prior = smoothed(codes, len(self._pool.classes))
            return two_views(self._inputs, share, prior, number=number, seed=seed)

        clients = self._clients_by_round(
            images,
            lambda client, seed, number: DataAndTest(
                training(number, images.rows(client), seed), self.plain(images.rows(client, "test"))
            ),
        )
        depends = (settings, local)
        return Federation(self._method(_MENDED[name]), settings.fssfl_rounds, self._tasks[name], clients, depends)

    def _alternate(self, name: str, images: _Images) -> Federation:
        """PLFL's data; the server trains again after every average."""
        settings = self._flags[AlternateSettings]
        training, prior = self._at_server(images, settings.alternate_epochs), self._prior(images)

        def unlabelled(client: str, seed: int, number: int) -> TwoViewData:
            paths = list(images.rows(client).path)
            steps = settings.alternate_epochs * -(-len(paths) // self._batch)
            share = Share([], np.zeros(0, np.int32), paths, steps, 1, self._batch)
            return two_views(self._inputs, share, prior, number=number, seed=seed)

        def server_data(number: int) -> GoldData:
            batches, steps = training(number)
            return GoldData(batches, steps, prior)

        return Federation(
            self._method(FEW_LABELS[name]), settings.alternate_rounds, self._tasks[name],
            self._clients_by_round(images, unlabelled), (settings, self._flags[TargetSettings]), server_data,
        )  # fmt: skip

    def plus_view(self) -> str:
        """What PLFL+ trains on: with a frozen base that sees plain images, affine views of them."""
        plain = self._inputs.frozen and not self._inputs.augments("training")
        return "affine" if plain and self._flags[PlusSettings].plus_views else "training"

    def plain(self, rows: pd.DataFrame) -> tf.data.Dataset:
        """Rows in order, once, as they are: for tests."""
        return self._inputs.batches(list(rows.path), self._pool.codes(rows), batch=self._batch, shuffle=False)

    def exact(self, rows: pd.DataFrame) -> tf.data.Dataset:
        """The same, of nothing that was stored in half precision."""
        return self._inputs.exact(list(rows.path), self._pool.codes(rows), batch=self._batch)

    def _training(self, rows: pd.DataFrame, epochs: int, seed: int, view: str = "training") -> Counted:
        batches = self._inputs.batches(
            list(rows.path), self._pool.codes(rows), view, batch=self._batch, epochs=epochs, seed=seed
        )
        return Counted(batches, np.int32(epochs * -(-len(rows) // self._batch)))

    def _at_server(self, images: _Images, epochs: int, view: str = "training") -> Callable[[int], Counted]:
        """The server's training images in a round."""
        gold = images.rows(oai.SERVER)
        return lambda number: self._training(gold, epochs, stream(images.seed, number, _SERVER_POSITION), view)

    def _tested(
        self, images: _Images, training: Callable[[pd.DataFrame, int], Any], epochs: int | None = None
    ) -> list[Client]:
        """Clients that also test; `training` is made of a client's rows and a seed."""
        return self._clients(
            images,
            lambda client, seed: DataAndTest(
                training(images.rows(client), seed), self.plain(images.rows(client, "test"))
            ),
            epochs,
        )

    def _labelling(self, images: _Images, passes: _Passes) -> list[Client]:
        """Clients that label their own images."""
        prior = self._prior(images)
        return self._clients(
            images, lambda client, seed: self._unlabelled(images.rows(client), prior, passes, seed), passes.epochs
        )

    def _unlabelled(self, rows: pd.DataFrame, prior: np.ndarray, passes: _Passes, seed: int) -> UnlabelledData:
        paths, numbers, batch = list(rows.path), np.arange(len(rows)), self._batch
        labelling = plain = self._inputs.batches(paths, numbers, batch=batch, shuffle=False)
        if passes.label_views:
            views = self._inputs.batches(
                paths, numbers, passes.view, batch=batch, epochs=passes.label_views, seed=seed + 1, shuffle=False
            )
            labelling = plain.concatenate(views)
        return UnlabelledData(
            labelling,
            plain,
            self._inputs.batches(paths, numbers, passes.view, batch=batch, epochs=passes.epochs, seed=seed),
            self._pool.codes(rows),
            np.int32(passes.epochs),
            np.random.default_rng(seed).random(len(rows), dtype=np.float32),
            prior,
        )

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

    def _prior(self, images: _Images) -> np.ndarray:
        """Class shares among the server's training images."""
        counts = np.bincount(self._pool.codes(images.rows(oai.SERVER)), minlength=len(self._pool.classes))
        return (counts / counts.sum()).astype(np.float32)

    def _clients(self, images: _Images, data: Callable[[str, int], Any], epochs: int | None) -> list[Client]:
        """`data` is a client's in a round, made of its name and the seed of its random numbers there.

        `epochs`: how often a round sees an image at most, if that is known.
        """

        most = {name: None if epochs is None else epochs * len(images.rows(name)) for name in self._positions}
        found = self._clients_by_round(images, lambda client, seed, number: data(client, seed))
        return [dataclasses.replace(client, examples=most[client.name], passes=epochs) for client in found]

    def _clients_by_round(self, images: _Images, data: Callable[[str, int, int], Any]) -> list[Client]:
        """The same of data that goes by the round's number, too."""

        def client(name: str, position: int) -> Client:
            return Client(name, lambda number: data(name, stream(images.seed, number, position), number))

        return [client(name, position) for name, position in self._positions.items()]

    def _method(self, kind: type[M]) -> M:
        """As its flags say; --average-from is PLFL+'s alone."""
        return dataclasses.replace(self._flags[kind], average_from=0)


def stream_positions(clients: Sequence[str]) -> dict[str, int]:
    """The position of each client's random numbers (`cohort.stream`): theirs go round the server's."""
    positions = [position for position in range(len(clients) + 1) if position != _SERVER_POSITION]
    return dict(zip(clients, positions))
