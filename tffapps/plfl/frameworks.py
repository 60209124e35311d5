"""The frameworks as federations: who holds which data, which method runs, for how many rounds."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import tensorflow as tf

from tffapps import Client, FedAvg, Flags, Inputs, Method, Pool, Task, cross_entropy, stream
from tffapps.data import oai
from tffapps.engine.values import HERE
from tffapps.federated.anchored import GoldData, Labelled
from tffapps.federated.few_labels import TwoViewData
from tffapps.federated.fixmatch import PartlyLabelledData
from tffapps.federated.local import Counted
from tffapps.federated.methods import FEW_LABELS
from tffapps.federated.pseudo_label import PseudoLabel, UnlabelledData
from tffapps.federated.pseudo_label_plus import PseudoLabelPlus
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
    CEILINGS,
    CONTINUED,
    FIXMATCHES,
    SUPERVISED_PART,
    AlternateSettings,
    CsflSettings,
    FssflSettings,
    GoldSettings,
    LocalSettings,
    PlflNetwork,
    PlflSettings,
    PlusSettings,
    TargetSettings,
    adjusted,
)
from tffapps.plfl.parts import SERVER_POSITION, Images, Parts, Passes
from tffapps.two_views import VIEWS, Share, smoothed, two_views

_MENDED: dict[str, type[Method]] = dict(zip(FIXMATCHES, (TestedMendedFixMatch, TestedFlexMatch, TestedFreeMatch)))


@dataclasses.dataclass(frozen=True)
class Federation:
    """What a framework is for one table and seed."""

    method: Method
    rounds: int
    task: Task
    clients: list[Client]
    settings: tuple[Any, ...]  # that it depends on, beside those that all frameworks do
    server_data: Callable[[int], Any] | None = None


class Frameworks(Parts):
    """Makes federations of one network's inputs; tasks are shared, so that a round is built once."""

    def __init__(self, inputs: Inputs, pool: Pool, flags: Flags) -> None:
        super().__init__(inputs, pool, flags)
        batches = inputs.spec
        plain, unlabelled = Counted.spec(batches), UnlabelledData.spec(batches)
        partly = PartlyLabelledData.spec(batches)
        gold = GoldData.spec(batches)
        two = TwoViewData.spec(batches)
        mended = Task(inputs.model, DataAndTest.spec(two, batches), cross_entropy)
        alternate = Task(inputs.model, two, cross_entropy, GoldData.spec(batches))
        self._tasks = {
            **dict.fromkeys(FIXMATCHES, mended),
            **dict.fromkeys(ALTERNATE, alternate),
            "gold": Task(inputs.model, plain, cross_entropy),
            **dict.fromkeys((CONTINUED, "central"), Task(inputs.model, GoldData.spec(batches), cross_entropy)),
            "labels": Task(inputs.model, GoldData.spec(batches), cross_entropy, gold),
            SUPERVISED_PART: Task(inputs.model, DataAndTest.spec(plain, batches), cross_entropy),
            "csfl": Task(inputs.model, DataAndTest.spec(plain, batches), cross_entropy),
            "plfl": Task(inputs.model, unlabelled, cross_entropy),
            "plfl+": Task(inputs.model, unlabelled, cross_entropy, gold),
            "fssfl": Task(inputs.model, DataAndTest.spec(partly, batches), cross_entropy),
        }
        self._adjusted = dict[tuple[int, float], Task]()  # by the id of the task that it was, and the power

    def under(self, flags: Flags) -> "Frameworks":
        """The same with other flags, and the same tasks."""
        other = copy.copy(self)
        other._flags = flags
        return other

    def prepare(self, name: str, table: pd.DataFrame) -> None:
        """Stored features, all at once and not in the middle of a round."""
        self._inputs.prepare(list(table.path), "plain")
        trained = table[table.split == "train"]
        if name == "fssfl" or name in _MENDED or name in ALTERNATE:
            self._inputs.prepare(list(trained.path[trained.client != oai.SERVER]), *VIEWS)
        if name in ("plfl+", CONTINUED, *CEILINGS):
            self._inputs.prepare(list(trained.path), self.plus_view())

    def of(self, name: str, table: pd.DataFrame, seed: int) -> Federation:
        """A framework over a table that `division.split` (and perhaps the poisoner) made."""
        images, power = Images(table, seed), self._flags[PlflNetwork].logit_adjust
        plain = self._plain(name, images)
        if not power:
            return plain
        key, data = (id(plain.task), power), plain.server_data
        if key not in self._adjusted:
            self._adjusted[key] = adjusted.task(plain.task, power)
        return dataclasses.replace(
            plain, task=self._adjusted[key],
            clients=[adjusted.client(client, self._known(images, client.name)) for client in plain.clients],
            server_data=data and adjusted.told(data, self._known(images, oai.SERVER)),
        )  # fmt: skip

    def _plain(self, name: str, images: Images) -> Federation:
        """With losses that do not go by how many images of each class there are."""
        if name in _MENDED:
            return self._mended(name, images)
        if name in ALTERNATE:
            return self._alternate(name, images)
        make = {
            "gold": self._gold,
            "csfl": self._csfl,
            "plfl": self._plfl,
            "plfl+": self._plus,
            "fssfl": self._fssfl,
            CONTINUED: self._continued,
            "labels": self._labels,
            "central": self._central,
            SUPERVISED_PART: self._supervised_part,
        }[name]
        return make(images)

    def _gold(self, images: Images) -> Federation:
        settings, prior = self._flags[GoldSettings], self._prior(images)
        training, weights = self._at_server(images, settings.gold_epochs), settings.gold_class_weights

        def weighed(number: int) -> GoldData:
            return GoldData(*training(number), prior)

        method: Method = self._method(FedAvg)
        task, data = self._tasks["gold"], cast(Callable[[int], Any], training)
        if weights:
            # Without what PLFL+ has of its own.
            method = dataclasses.replace(self._method(Labelled), class_weights=weights, rate_share=1.0, server_epochs=0)
            task, data = self._tasks[CONTINUED], weighed
        client = Client(oai.SERVER, data, site=HERE, passes=self._epochs_at_server(images, settings.gold_epochs))
        return Federation(method, 1, task, [client], (settings,))

    def _csfl(self, images: Images) -> Federation:
        settings, local = self._flags[CsflSettings], self._flags[LocalSettings]
        clients = self._tested(images, lambda rows, seed: self._training(rows, local.epochs, seed), local.epochs)
        return Federation(
            self._method(TestedFedAvg), settings.csfl_rounds, self._tasks["csfl"], clients,
            (settings, local, *self._target()),
        )  # fmt: skip

    def _plfl(self, images: Images) -> Federation:
        settings, local = self._flags[PlflSettings], self._flags[LocalSettings]
        method = self._method(PseudoLabel)
        if settings.server_in_average:
            # In the clients' measure: images times epochs.
            method = dataclasses.replace(method, server_examples=float(len(images.rows(oai.SERVER)) * local.epochs))
        clients = self._labelling(images, Passes(local.epochs))
        depends = (settings, local, self._flags[TargetSettings])
        return Federation(method, settings.plfl_rounds, self._tasks["plfl"], clients, depends)

    def _plus(self, images: Images) -> Federation:
        settings, method, view = self._flags[PlusSettings], self._flags[PseudoLabelPlus], self.plus_view()
        # Where nothing is augmented, another view would be the same image again.
        label_views = settings.label_views if self._inputs.augments(view) else 0
        clients = self._labelling(images, Passes(settings.plus_epochs, view, label_views))
        return Federation(
            method, settings.plus_rounds, self._tasks["plfl+" if method.server_epochs else "plfl"], clients,
            (settings, self._flags[TargetSettings]),
            self._anchor(images, method.server_epochs),
        )  # fmt: skip

    def _anchor(self, images: Images, epochs: int) -> Callable[[int], GoldData] | None:
        """The server's data in a round of plfl+; None: it has no step of its own."""
        training, prior = self._at_server(images, epochs, self.plus_view()), self._prior(images)
        return (lambda number: GoldData(*training(number), prior)) if epochs else None

    def _continued(self, images: Images) -> Federation:
        """The server alone goes on from gold's model: for as many steps, and as many views, as plfl+ takes in all."""
        return self._alone(CONTINUED, oai.SERVER, images.rows(oai.SERVER), images)

    def _central(self, images: Images) -> Federation:
        """The same with everybody's images and labels in one place."""
        return self._alone("central", "central", images.table[images.table.split == "train"], images)

    def _alone(self, name: str, client: str, rows: pd.DataFrame, images: Images) -> Federation:
        settings, method, view = self._flags[PlusSettings], self._flags[Labelled], self.plus_view()
        steps = self._plus_steps(images, method)
        epochs, prior = -(-steps // self._batches(rows)), self._prior(images)

        def data(number: int) -> GoldData:
            training = self._training(rows, epochs, stream(images.seed, number, SERVER_POSITION), view)
            return GoldData(training.batches.take(steps), np.int32(steps), prior)

        clients = [Client(client, data, site=HERE, passes=epochs)]
        depends = (settings, self._flags[TargetSettings])
        return Federation(method, settings.plus_rounds, self._tasks[name], clients, depends)

    def _plus_steps(self, images: Images, method: Labelled) -> int:
        """Batches of a round of plfl+ in which every image is kept: all clients', and the server's."""
        settings = self._flags[PlusSettings]
        own = sum(settings.plus_epochs * self._batches(images.rows(client)) for client in self._positions)
        epochs = self._epochs_at_server(images, method.server_epochs)
        return own + epochs * self._batches(images.rows(oai.SERVER))

    def _labels(self, images: Images) -> Federation:
        """plfl+ whose clients know the true labels of all their images."""
        settings, method, view = self._flags[PlusSettings], self._flags[Labelled], self.plus_view()
        prior = self._prior(images)

        def data(client: str, seed: int) -> GoldData:
            return GoldData(*self._training(images.rows(client), settings.plus_epochs, seed, view), prior)

        return Federation(
            method, settings.plus_rounds, self._tasks["labels" if method.server_epochs else CONTINUED],
            self._clients(images, data, settings.plus_epochs), (settings, self._flags[TargetSettings]),
            self._anchor(images, method.server_epochs),
        )  # fmt: skip

    def _fssfl(self, images: Images) -> Federation:
        settings, local = self._flags[FssflSettings], self._flags[LocalSettings]
        clients = self._tested(images, self._partly_labelled)
        depends = (settings, local, *self._target())
        return Federation(self._method(TestedFixMatch), settings.fssfl_rounds, self._tasks["fssfl"], clients, depends)

    def _supervised_part(self, images: Images) -> Federation:
        """fixmatch without its unlabelled images: the same labelled ones, in the same views, for as many steps."""
        settings, local = self._flags[FssflSettings], self._flags[LocalSettings]

        def training(rows: pd.DataFrame, seed: int) -> Counted:
            known, batch = rows[rows.labelled], settings.labelled_batch
            batches = self._inputs.batches(
                list(known.path), self._pool.codes(known), "weak", batch=batch, epochs=local.epochs, seed=seed
            )
            return Counted(batches, np.int32(local.epochs * -(-len(known) // batch)))

        clients = self._tested(images, training, local.epochs)
        depends = (settings, local, *self._target())
        return Federation(
            self._method(TestedFedAvg), settings.fssfl_rounds, self._tasks[SUPERVISED_PART], clients, depends
        )

    def _mended(self, name: str, images: Images) -> Federation:
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
        depends = (settings, local, *self._target())
        return Federation(self._method(_MENDED[name]), settings.fssfl_rounds, self._tasks[name], clients, depends)

    def _alternate(self, name: str, images: Images) -> Federation:
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

    def _target(self) -> tuple[TargetSettings, ...]:
        """Of frameworks that stopped for no target when their keys were made: in the key where there is one."""
        target = self._flags[TargetSettings]
        return (target,) if target.target_accuracy else ()

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
