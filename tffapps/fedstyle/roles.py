"""Who trains on what under each method."""

import dataclasses
from typing import Any

import pandas as pd

from tffapps import METHODS, Flags, Method, Pool, UserError
from tffapps.data.artists import SERVER
from tffapps.federated.methods import EMBEDDING_METHODS
from tffapps.fedstyle import FedStyleClientSettings, FedStylePublicSettings

CENTRALISED = "centralised"  # the cloaking study's method: all pictures are in one place
PUBLIC = ("public",)  # the splits of one who has the public pictures alone
STYLES = ("style_contrast", "style_mse", "style_server_contrast")  # FedStyle's own losses


@dataclasses.dataclass(frozen=True)
class Role:
    """What the clients and the server do under a method."""

    method: type[Method]
    alone: tuple[str, ...] = ()  # the server has these splits and trains alone; (): every client trains on its own
    server: bool = False  # whether the server trains as well, on the public pictures
    without: tuple[str, ...] = ()  # losses that are left out
    retrained: bool = False  # whether the classifying layer is trained anew at the end

    @property
    def by_embeddings(self) -> bool:
        """Whether data is `TrainingAndOnce`."""
        return self.method.name in EMBEDDING_METHODS

    def method_of(self, flags: Flags, **changes: Any) -> Method:
        dropped: dict[str, Any] = dict.fromkeys(self.without, 0.0)
        return dataclasses.replace(flags[self.method], **dropped, **changes)

    def settings(self, flags: Flags) -> list[Any]:
        """Those that its runs depend on, beside those of every run."""
        clients = [flags[FedStyleClientSettings]] if self.alone != PUBLIC else []
        public = [flags[FedStylePublicSettings]] if self.server or self.alone == PUBLIC else []
        return [*clients, *public]

    def epochs(self, flags: Flags) -> int:
        """Of everybody in `training_rows`, a round."""
        if self.alone == PUBLIC:
            return flags[FedStylePublicSettings].public_epochs
        return flags[FedStyleClientSettings].epochs

    def training_rows(self, pool: Pool) -> dict[str, pd.DataFrame]:
        """The pictures of each who trains, by name."""
        if (self.server or self.alone == PUBLIC) and not len(pool.part("public")):
            raise UserError("no public pictures: artists have too few; leave local and fedstyle out of --methods")
        if self.alone:
            return {SERVER: pool.table[pool.table.split.isin(self.alone)]}
        return {client: pool.part("train", client) for client in pool.clients}


ROLES = {
    "local": Role(METHODS["fedavg"], alone=PUBLIC),
    CENTRALISED: Role(METHODS["fedavg"], alone=("train", *PUBLIC)),
    "fedavg": Role(METHODS["fedavg"]),
    "fedprox": Role(METHODS["fedprox"]),
    "fedproto": Role(EMBEDDING_METHODS["fedproto"]),
    "fpl": Role(EMBEDDING_METHODS["fpl"]),
    "fedstyle": Role(EMBEDDING_METHODS["fedstyle"], server=True),
    "fedavg_public": Role(EMBEDDING_METHODS["fedstyle"], server=True, without=STYLES),
    "fedavg_ccvr": Role(METHODS["fedavg"], retrained=True),
}
