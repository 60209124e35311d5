"""What is done to the images of a federation, kept on disk: none, fedsda, ccst, amp-norm.

fedsda and ccst change the training images only. amp-norm changes the test images as well, as HarmoFL does: its model
has never seen an amplitude but the mean one.
"""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from preprocessing import amplitude
from tffapps import Flags, UserError, cache_folder
from tffapps.data import made
from tffapps.fedsda import AmplitudeSettings, CcstDecoderSettings, CcstSettings, ClassifierSettings, SeparationSettings
from tffapps.fedsda.ccst import StyleTransfer
from tffapps.fedsda.data import Fold
from tffapps.fedsda.diffusion import StainModels
from tffapps.fedsda.placement import Placement
from tffapps.use.steps import Amplitude as AmplitudeStep
from tffapps.use.steps import Step

_VIEW = 100_003  # between the seeds of views


@dataclasses.dataclass(frozen=True)
class Aligned:
    """A fold's tables with the paths of the images that were made."""

    train: pd.DataFrame  # beside the usual columns `source`, the original's path
    test: pd.DataFrame
    key: str  # changes with any image
    steps: tuple[Step, ...] = ()  # what was done to the test images, and has to be done to any other
    val: pd.DataFrame = dataclasses.field(default_factory=pd.DataFrame)
    usable: bool = True  # whether `steps` is all; else what was done to the test images cannot be told to others


class Alignment(Protocol):
    """A side."""

    @property
    def settings(self) -> Sequence[Any]:
        """Those that its images depend on."""

    def of(self, fold: Fold, seed: int) -> Aligned:
        """The images of a federation."""


class Unaligned:
    """none: images as they are."""

    settings = ()

    def of(self, fold: Fold, seed: int) -> Aligned:
        return Aligned(with_source(fold), fold.test, "", val=fold.val)


class StainAlignment:
    """fedsda, algorithm 2: a K-th of each client's patches gets stains drawn from each client's distribution.

    own, its control: every patch gets stains drawn from its own client's. gaussian: as fedsda, drawn from each
    client's Gaussian whatever --stain-model says. Further views of a patch are from the next clients' distributions.
    """

    def __init__(
        self, flags: Flags, placement: Placement, stain_models: StainModels, own: bool = False, block: str = ""
    ) -> None:
        self._placement, self._stain_models, self._own, self._block = placement, stain_models, own, block
        self._views = flags[ClassifierSettings].views
        self.settings = flags[SeparationSettings], stain_models.settings

    def of(self, fold: Fold, seed: int) -> Aligned:
        train, parts = with_source(fold), parts_of(fold, seed)
        model = self._stain_models.of(fold, self._block) if self._block else self._stain_models.of(fold)
        tables, drawn = [], []
        for view in range(self._views):
            numbers = numbers_of(fold) if self._own else (parts + view) % len(fold.clients)
            drawn.append(model.draw(numbers, seed + _VIEW * view))
            tables.append(train.assign(path=self._placement.align(train, drawn[-1])))
        key = _hash(np.stack(drawn).tobytes())
        return Aligned(pd.concat(tables, ignore_index=self._views > 1), fold.test, key, val=fold.val)


class StyleAlignment:
    """ccst: each image in the styles of one or more clients, the first drawn as for fedsda.

    In its own client's style it stays as it is, as in CCST's code.
    """

    def __init__(self, flags: Flags, style_transfer: StyleTransfer) -> None:
        self._style_transfer, self._settings = style_transfer, flags[CcstSettings]
        self.settings = self._settings, flags[CcstDecoderSettings]

    def of(self, fold: Fold, seed: int) -> Aligned:
        learned, clients, train = self._style_transfer.of(fold), len(fold.clients), with_source(fold)
        parts, alpha = parts_of(fold, seed), self._settings.ccst_alpha
        styles = min(self._settings.ccst_styles or clients, clients)
        own = numbers_of(fold)
        settings = {
            "side": "ccst", "version": 2, "networks": learned.key, "alpha": alpha, "pixels": self._settings.ccst_side,
        }  # fmt: skip
        tables = []
        for shift in range(styles):
            numbers = (parts + shift) % clients

            def transfer(images: np.ndarray, rows: Sequence[int], numbers: np.ndarray = numbers) -> np.ndarray:
                return learned.transfer(images, numbers[list(rows)])

            others = np.flatnonzero(numbers != own)
            paths = train.path.to_numpy(object, copy=True)
            paths[others] = _made(
                train.path.iloc[others],
                numbers[others].tolist(),
                _of_rows(transfer, others),
                settings,
                "style transfer",
            )
            tables.append(train.assign(path=paths))
        key = _hash(f"{learned.key} {styles} {sorted(settings.items())} {parts.tolist()}".encode())
        return Aligned(pd.concat(tables, ignore_index=True), fold.test, key, val=fold.val)


def _of_rows(make: made.Make, chosen: np.ndarray) -> made.Make:
    """The same for a list of the chosen rows alone."""
    return lambda images, rows: make(images, [int(chosen[row]) for row in rows])


class AmplitudeAlignment:
    """amp-norm, algorithm 3. A single client has nobody to share an amplitude with: its images stay as they are."""

    def __init__(self, flags: Flags) -> None:
        self._decay, self._batch = flags[AmplitudeSettings].amplitude_decay, flags[ClassifierSettings].batch
        self._band = flags[AmplitudeSettings].amplitude_band
        self.settings = (flags[AmplitudeSettings],)

    def of(self, fold: Fold, seed: int) -> Aligned:
        if len(fold.clients) < 2:
            return Unaligned().of(fold, seed)
        train = with_source(fold)
        try:
            mean = amplitude.combine([self._amplitude(fold, client) for client in fold.clients])
            key = _hash(mean.tobytes() + str(self._band).encode())
            return Aligned(
                train.assign(path=self._normalised(train.path, mean, key)),
                self._normalised_rows(fold.test, mean, key),
                key,
                (AmplitudeStep(mean, self._band),),
                self._normalised_rows(fold.val, mean, key),
            )
        except ValueError as error:
            raise UserError(f"--sides amp-norm: {error}") from error

    def _amplitude(self, fold: Fold, client: str) -> np.ndarray:
        mean: amplitude.AmplitudeMean | None = None
        for _, images in made.stacks(list(fold.of_client(client).path), batch=self._batch, rejects={}):
            mean = mean or amplitude.AmplitudeMean(self._decay, images.shape[1:3])
            mean.add(images)
        if mean is None:
            raise ValueError(f"no image of {client} can be read")
        return mean.value

    def _normalised_rows(self, rows: pd.DataFrame, mean: np.ndarray, key: str) -> pd.DataFrame:
        return rows.assign(path=self._normalised(rows.path, mean, key), source=rows.path) if len(rows) else rows

    def _normalised(self, paths: pd.Series, mean: np.ndarray, key: str) -> list[str]:
        def normalise(images: np.ndarray, rows: Sequence[int]) -> np.ndarray:
            return amplitude.normalise(images, mean, self._band)

        settings = {"side": "amp-norm", "version": 2, "amplitude": key}
        return _made(paths, [None] * len(paths), normalise, settings, "amplitude normalisation")


def with_source(fold: Fold) -> pd.DataFrame:
    return fold.train.assign(source=fold.train.path)


def parts_of(fold: Fold, seed: int) -> np.ndarray:
    """For each training patch the number of a client: each client's patches are divided equally, at random."""
    parts = np.empty(len(fold.train), np.int32)
    for number, client in enumerate(fold.clients):
        rows = np.flatnonzero((fold.train.client == client).to_numpy())
        order = np.random.default_rng([seed, number, 0x5DA]).permutation(len(rows))
        parts[rows] = (order + number) % len(fold.clients)  # where they do not divide evenly, not always the first
    return parts


def numbers_of(fold: Fold) -> np.ndarray:
    """For each training patch the number of its own client."""
    return fold.train.client.map({client: number for number, client in enumerate(fold.clients)}).to_numpy(np.int32)


def in_views(aligned: Aligned, fold: Fold, views: int) -> Aligned:
    """With as many rows of each patch as there are views, where a side makes one: as much work for every side."""
    if views == 1 or len(aligned.train) != len(fold.train):
        return aligned
    return dataclasses.replace(aligned, train=pd.concat([aligned.train] * views, ignore_index=True))


def _made(
    paths: pd.Series, parameters: Sequence[Any], make: made.Make, settings: dict[str, Any], title: str
) -> list[str]:
    return made.made_paths(list(paths), parameters, make, settings, cache_folder() / "aligned", title)


def _hash(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()[:16]
