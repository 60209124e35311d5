"""What is done to the images of a federation, kept on disk: none, fedsda, ccst, amp-norm.

fedsda and ccst change the training images only. amp-norm changes the test images as well, as HarmoFL does: its model
has never seen an amplitude but the mean one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from preprocessing import amplitude
from tffapps.data import made
from tffapps.errors import UserError
from tffapps.fedsda import SideFlags, ccst
from tffapps.fedsda.data import CACHE, Fold
from tffapps.fedsda.diffusion import StainModel
from tffapps.settings import pick


@dataclasses.dataclass(frozen=True)
class Aligned:
    """A fold's tables with the paths of the images that were made."""

    train: pd.DataFrame  # beside the usual columns `source`, the original's path
    test: pd.DataFrame
    key: str  # changes with any image
    kept: int = 0  # images of the training table that are as they were


# (training rows, a stain matrix for each) -> the path of each row's image now, and how many are as they were
Align = Callable[[pd.DataFrame, np.ndarray], tuple[list[str], int]]


class Alignments:
    """One federation's images."""

    def __init__(
        self,
        values: dict[str, Any],
        fold: Fold,
        align: Align,
        stain_model: Callable[[], StainModel],
        style_transfer: Callable[[], ccst.Learned],
    ) -> None:
        self._values, self._fold, self._align = values, fold, align
        self._flags: SideFlags = pick(SideFlags, values)
        self._stain_model, self._style_transfer = stain_model, style_transfer

    def of(self, side: str, seed: int) -> Aligned:
        train = self._fold.train.assign(source=self._fold.train.path)
        make = {"none": self._none, "fedsda": self._fedsda, "ccst": self._ccst, "amp-norm": self._amp_norm}[side]
        return make(train, self._fold.test, seed)

    def _none(self, train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Aligned:
        del seed
        return Aligned(train, test, "", len(train))

    def _fedsda(self, train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Aligned:
        """Algorithm 2: a K-th of each client's patches gets stains drawn from each client's distribution."""
        matrices = self._stain_model().draw(self._parts(train, seed), seed)
        paths, kept = self._align(train, matrices)
        key = hashlib.sha256(matrices.tobytes()).hexdigest()[:16]
        return Aligned(train.assign(path=paths), test, key, kept)

    def _ccst(self, train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Aligned:
        """Each image in the styles of one or more clients, the first drawn as for fedsda."""
        learned, clients = self._style_transfer(), len(self._fold.clients)
        parts = self._parts(train, seed)
        styles = min(self._flags.ccst_styles or clients, clients)
        tables = []
        for more in range(styles):
            numbers = (parts + more) % clients

            def transfer(images: np.ndarray, rows: Sequence[int], numbers: np.ndarray = numbers) -> np.ndarray:
                return learned.transfer(images, numbers[list(rows)])

            settings = {"side": "ccst", "version": 1, "networks": learned.key, "alpha": self._flags.ccst_alpha}
            paths = self._made(train, numbers.tolist(), transfer, settings, "style transfer")
            tables.append(train.assign(path=paths))
        key = hashlib.sha256(f"{learned.key} {styles} {self._flags.ccst_alpha} {parts.tolist()}".encode()).hexdigest()
        return Aligned(pd.concat(tables, ignore_index=True), test, key[:16])

    def _amp_norm(self, train: pd.DataFrame, test: pd.DataFrame, seed: int) -> Aligned:
        """Algorithm 3. A single client has nobody to share an amplitude with: its images stay as they are."""
        if len(self._fold.clients) < 2:
            return self._none(train, test, seed)
        try:
            mean = amplitude.combine([self._amplitude(train, client) for client in self._fold.clients])

            def normalise(images: np.ndarray, rows: Sequence[int]) -> np.ndarray:
                del rows
                return amplitude.normalise(images, mean)

            key = hashlib.sha256(mean.tobytes()).hexdigest()[:16]
            settings = {"side": "amp-norm", "version": 1, "amplitude": key}
            both = [
                self._made(table, [None] * len(table), normalise, settings, "amplitude normalisation")
                for table in (train.assign(path=train.source), test)
            ]
        except ValueError as error:
            raise UserError(f"--sides amp-norm: {error}") from error
        return Aligned(train.assign(path=both[0]), test.assign(path=both[1]), key)

    def _amplitude(self, train: pd.DataFrame, client: str) -> np.ndarray:
        mean: amplitude.AmplitudeMean | None = None
        paths = list(train.source[train.client == client])
        for _, images in made.stacks(paths, batch=self._values["batch"], rejects={}):
            mean = mean or amplitude.AmplitudeMean(self._flags.amplitude_decay, images.shape[1:3])
            mean.add(images)
        if mean is None:
            raise ValueError(f"no image of {client} can be read")
        return mean.value

    def _parts(self, train: pd.DataFrame, seed: int) -> np.ndarray:
        """For each patch the number of a client: each client's patches are divided equally, at random."""
        clients = self._fold.clients
        parts = np.empty(len(train), np.int32)
        for number, client in enumerate(clients):
            rows = np.flatnonzero((train.client == client).to_numpy())
            order = np.random.default_rng([seed, number, 0x5DA]).permutation(len(rows))
            parts[rows] = (order + number) % len(clients)  # where they do not divide evenly, not always the first
        return parts

    def _made(
        self, table: pd.DataFrame, parameters: Sequence[Any], make: made.Make, settings: dict[str, Any], title: str
    ) -> list[str]:
        return made.made_paths(list(table.path), parameters, make, settings, CACHE / "aligned", title)
