"""Who knows which labels, where --labelled-share says that only a part of the training images is labelled.

With `--labels clients` every client knows a share of its own; with `--labels server` that share of everybody's images
is the server's, and clients have no label at all. A subject's images are all labelled or all not. Supervised methods
train on the labelled images alone: those of the clients, or the server's as a federation of one.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tffapps import Common, Flags, Pool, UserError
from tffapps.classify import REFERENCES, LabelSettings
from tffapps.data import groups, partition
from tffapps.federated.methods import FEW_LABELS, LABELS_AT_SERVER
from tffapps.federated.unequal import PLAIN, ClassBalance

SERVER = "server"


@dataclasses.dataclass(frozen=True)
class Divided:
    """The training images of a split and seed."""

    known: Mapping[str, pd.DataFrame]  # by client, or of SERVER alone
    unknown: Mapping[str, pd.DataFrame]  # by client; empty where all are labelled

    @property
    def at_server(self) -> pd.DataFrame | None:
        return self.known.get(SERVER) if self.unknown and SERVER not in self.unknown else None


def check(flags: Flags, pool: Pool) -> None:
    """Refuses what does not go together, in one line."""
    asked, common = flags[LabelSettings], flags[Common]
    few = [method for method in common.methods if method in FEW_LABELS]
    if not asked.used:
        if few:
            raise UserError(
                f"--methods {few[0]}: it learns from unlabelled images, and all are labelled; give --labelled-share"
                " below 1, or leave it out"
            )
        return
    if asked.labels == "clients":
        for method in few:
            if method in LABELS_AT_SERVER:
                raise UserError(
                    f"--methods {method}: its clients have no labels; give --labels server, or leave it out"
                )
    else:
        if pool.at_sites:
            raise UserError("--labels server: the labelled images would leave the sites; use --labels clients")
        if SERVER in pool.clients:
            raise UserError(f"--labels server: a client is called {SERVER}, as the server's own images are; rename it")
        if REFERENCES[0] in common.methods:
            raise UserError(f"--methods {REFERENCES[0]}: with --labels server no client has labels; leave it out")
    if few and flags[ClassBalance] != PLAIN:
        raise UserError(f"--loss, --sampling: not with {few[0]}, which has a loss of its own; leave out one of the two")


def divide(pool: Pool, asked: LabelSettings, group: str, seed: int) -> Divided:
    """The pool's training images as a seed divides them."""
    training = {client: pool.part("train", client) for client in sorted(pool.clients)}
    if not asked.used:
        return Divided(training, {})
    rows = pd.concat(list(training.values()))
    kind = groups.kind_of(rows, group)
    together = groups.of(rows, groups.SUBJECT).tolist() if kind == groups.SUBJECT else None
    flag = f"--labelled-share {asked.labelled_share:g}"
    try:
        shares = [asked.labelled_share, 1 - asked.labelled_share]
        labelled = partition.stratified((rows.client + "/" + rows.label).tolist(), shares, seed, groups=together) == 0
    except UserError as error:
        raise UserError(f"{flag}: {error}") from None
    missing = sorted(set(pool.classes) - set(rows.label[labelled]))
    if missing:
        raise UserError(f"{flag}: no labelled image of class {missing[0]} is left; raise it")
    by_client = rows.client.to_numpy()
    known = {client: rows[labelled & (by_client == client)] for client in training}
    unknown = {client: rows[~labelled & (by_client == client)] for client in training}
    for client in training:
        if not len(unknown[client]):
            raise UserError(f"{flag}: no unlabelled image of {client} is left; lower it")
        if not len(known[client]) and asked.labels == "clients":
            raise UserError(f"{flag}: no labelled image of {client} is left; raise it, or use --labels server")
    return Divided({SERVER: rows[labelled]} if asked.labels == "server" else known, unknown)


def codes_of(pool: Pool, known: Mapping[str, pd.DataFrame]) -> np.ndarray:
    return pool.codes(pd.concat(list(known.values())))
