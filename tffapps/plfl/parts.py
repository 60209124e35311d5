"""What frameworks are made of: a client's images as data of its rounds, the server's, and clients of them."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import tensorflow as tf

from tffapps import Client, Flags, Inputs, Method, Pool, stream
from tffapps.data import oai
from tffapps.federated.local import Counted
from tffapps.federated.pseudo_label import UnlabelledData
from tffapps.federated.tested import DataAndTest
from tffapps.plfl import GoldSettings, PlflNetwork, PlusSettings, division

SERVER_POSITION = 2  # of the server's random numbers; clients have the positions before and after it
M = TypeVar("M", bound=Method)


@dataclasses.dataclass(frozen=True)
class Images:
    """Who has which, as a seed divides them."""

    table: pd.DataFrame
    seed: int

    def rows(self, client: str, split: str = "train") -> pd.DataFrame:
        return self.table[(self.table.client == client) & (self.table.split == split)]


@dataclasses.dataclass(frozen=True)
class Passes:
    """How a client goes through its unlabelled images in a round."""

    epochs: int  # of training
    view: str = "training"  # that it trains on
    label_views: int = 0  # whose predictions are averaged for a label, beside that of the plain image


class Parts:
    """Of one network's inputs and one pool."""

    def __init__(self, inputs: Inputs, pool: Pool, flags: Flags) -> None:
        self._inputs, self._pool, self._flags = inputs, pool, flags
        self._batch = flags[PlflNetwork].batch
        self._positions = stream_positions(division.clients(pool))

    def plus_view(self) -> str:
        """What PLFL+ trains on: with a frozen base that sees plain images, affine views of them."""
        chosen = self._flags[PlusSettings].plus_view
        if chosen != "auto":
            return chosen
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

    def _at_server(self, images: Images, epochs: int, view: str = "training") -> Callable[[int], Counted]:
        """The server's training images in a round."""
        gold, epochs = images.rows(oai.SERVER), self._epochs_at_server(images, epochs)
        return lambda number: self._training(gold, epochs, stream(images.seed, number, SERVER_POSITION), view)

    def _epochs_at_server(self, images: Images, epochs: int) -> int:
        """How often it goes through its images in as many epochs (--gold-batches)."""
        return epochs * -(-self._flags[GoldSettings].gold_batches // self._batches(images.rows(oai.SERVER))) or epochs

    def _batches(self, rows: pd.DataFrame) -> int:
        return -(-len(rows) // self._batch)

    def _tested(
        self, images: Images, training: Callable[[pd.DataFrame, int], Any], epochs: int | None = None
    ) -> list[Client]:
        """Clients that also test; `training` is made of a client's rows and a seed."""
        return self._clients(
            images,
            lambda client, seed: DataAndTest(
                training(images.rows(client), seed), self.plain(images.rows(client, "test"))
            ),
            epochs,
        )

    def _labelling(self, images: Images, passes: Passes) -> list[Client]:
        """Clients that label their own images."""
        prior = self._prior(images)
        return self._clients(
            images, lambda client, seed: self._unlabelled(images.rows(client), prior, passes, seed), passes.epochs
        )

    def _unlabelled(self, rows: pd.DataFrame, prior: np.ndarray, passes: Passes, seed: int) -> UnlabelledData:
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

    def _prior(self, images: Images) -> np.ndarray:
        """Class shares among the server's training images."""
        counts = np.bincount(self._pool.codes(images.rows(oai.SERVER)), minlength=len(self._pool.classes))
        return (counts / counts.sum()).astype(np.float32)

    def _known(self, images: Images, client: str) -> np.ndarray:
        """How many images of each class are known to have it: the server's, or a client's own where it has labels."""
        rows = images.rows(oai.SERVER)
        if rows.empty or "labelled" in rows:
            rows = images.rows(client)
            rows = rows[rows.labelled] if "labelled" in rows else rows
        return np.bincount(self._pool.codes(rows), minlength=len(self._pool.classes)).astype(np.float32)

    def _clients(self, images: Images, data: Callable[[str, int], Any], epochs: int | None) -> list[Client]:
        """`data` is a client's in a round, made of its name and the seed of its random numbers there.

        `epochs`: how often a round sees an image at most, if that is known.
        """

        most = {name: None if epochs is None else epochs * len(images.rows(name)) for name in self._positions}
        found = self._clients_by_round(images, lambda client, seed, number: data(client, seed))
        return [dataclasses.replace(client, examples=most[client.name], passes=epochs) for client in found]

    def _clients_by_round(self, images: Images, data: Callable[[str, int, int], Any]) -> list[Client]:
        """The same of data that goes by the round's number, too."""

        def client(name: str, position: int) -> Client:
            return Client(name, lambda number: data(name, stream(images.seed, number, position), number))

        return [client(name, position) for name, position in self._positions.items()]

    def _method(self, kind: type[M]) -> M:
        """As its flags say; --average-from is PLFL+'s alone."""
        return dataclasses.replace(self._flags[kind], average_from=0)


def stream_positions(clients: Sequence[str]) -> dict[str, int]:
    """The position of each client's random numbers (`cohort.stream`): theirs go round the server's."""
    positions = [position for position in range(len(clients) + 1) if position != SERVER_POSITION]
    return dict(zip(clients, positions))
