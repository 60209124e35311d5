"""CCST for a federation: every client's style, and a decoder: AdaIN's own, or one that all clients train together.

No image leaves a client: what is sent are each client's style, two numbers for each channel of VGG-19's relu4_1, and
the weights of a decoder that is trained, by FedAvg. Both are kept with the runs and used again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd
import tensorflow as tf

from models import adain as networks
from models import adain_published, vgg
from models.weights import WeightsError
from preprocessing import adain
from tffapps import (
    Client,
    FedAvg,
    Flags,
    Initial,
    Metrics,
    Pool,
    Study,
    Task,
    Trained,
    Trial,
    UserError,
    name_of,
    stream,
)
from tffapps.data import pipeline
from tffapps.data.made import stacks
from tffapps.fedsda import LEARNING_SEED, CcstDecoderSettings, CcstSettings
from tffapps.fedsda.data import Fold

_IMAGES = 32  # encoded at once for a style, 4 if they are enlarged


class StyleTransfer(Protocol):
    def of(self, fold: Fold) -> Styles:
        """The networks and the styles of a federation."""


def style_transfer(study: Study, pool: Pool) -> StyleTransfer:
    """With the published pair of networks where --ccst-decoder names it."""
    if study.flags[CcstDecoderSettings].ccst_decoder:
        return PublishedTransfer(study.flags)
    return TrainedTransfer(study, pool)


class PublishedTransfer:
    """Encoder and decoder as AdaIN's authors trained them: nothing is learned."""

    def __init__(self, flags: Flags) -> None:
        settings, self._settings = flags[CcstDecoderSettings], flags[CcstSettings]
        if settings.ccst_weights in ("imagenet", "random"):
            raise UserError(
                f"--ccst-decoder {settings.ccst_decoder}: belongs to one encoder; "
                f"give its file by --ccst-weights FILE, not {settings.ccst_weights}"
            )
        try:
            self._pair = adain_published.load(pathlib.Path(settings.ccst_weights), pathlib.Path(settings.ccst_decoder))
        except WeightsError as error:
            raise UserError(f"--ccst-weights, --ccst-decoder: {error}") from error
        self._styles: dict[str, Styles] = {}  # by fold

    def of(self, fold: Fold) -> Styles:
        if fold.identity not in self._styles:
            styles = styles_of(self._pair.encoder, fold, self._settings)
            weights = self._pair.decoder.get_weights()
            self._styles[fold.identity] = Styles(*self._pair[:2], weights, styles, self._settings)
        return self._styles[fold.identity]


def styles_of(encoder: tf.keras.Model, fold: Fold, settings: CcstSettings) -> list[adain.Style]:
    """Each client's."""
    side = settings.ccst_side

    def images_of(client: str) -> Iterator[np.ndarray]:
        paths = list(fold.of_client(client).path)
        for _, images in stacks(paths, batch=4 if side else _IMAGES, rejects={}):
            yield adain.enlarged(images, side) if side else images

    return [adain.style_of(encoder, images_of(client)) for client in fold.clients]


class TrainedTransfer:
    """The encoder, and the decoder that each federation trains for it."""

    def __init__(self, study: Study, pool: Pool) -> None:
        self._study, self._pool = study, pool
        self._settings, self._transfer = study.flags[CcstDecoderSettings], study.flags[CcstSettings]
        self._encoder = vgg.build(networks.LAYER, width=self._settings.ccst_width)
        try:
            used = vgg.load(self._encoder, self._settings.ccst_weights, seed=LEARNING_SEED)
        except WeightsError as error:
            raise UserError(f"--ccst-weights: {error}") from error
        scale = networks.scale_of(self._encoder)
        self._decoder = networks.decoder(self._settings.ccst_width, LEARNING_SEED, scale)
        self._initial = Initial(
            self._decoder.get_weights(), {"weights": used.label, "weights_sha256": used.sha256, "seed": LEARNING_SEED}
        )
        spec = pipeline.element_spec((self._settings.ccst_size, self._settings.ccst_size), 3)
        model = adain.training_model(self._encoder, self._decoder)
        self._task = Task.of_batches(model, spec, adain.loss_is_output)
        self._styles: dict[str, Styles] = {}  # by fold

    def of(self, fold: Fold) -> Styles:
        """The decoder and the styles of a federation."""
        if fold.identity not in self._styles:
            weights = self._study.run(self._trial(fold)).weights()
            styles = styles_of(self._encoder, fold, self._transfer)
            self._styles[fold.identity] = Styles(self._encoder, self._decoder, weights, styles, self._transfer)
        return self._styles[fold.identity]

    def _trial(self, fold: Fold) -> Trial:
        return Trial(
            labels={"method": "ccst-decoder", "seed": LEARNING_SEED, **fold.labels},
            name=name_of("ccst-decoder", fold.identity),
            method=FedAvg(optimizer="adam", learning_rate=self._settings.ccst_learning_rate),
            task=self._task,
            clients=lambda: [
                Client(client, functools.partial(self._batches, list(fold.of_client(client).path), position))
                for position, client in enumerate(fold.clients)
            ],
            initial=self._initial,
            rounds=self._settings.ccst_rounds,
            evaluator=LossAlone(),
            settings=[self._settings],
            data={"images": fold.split.pool.key if fold.split else self._pool.key},
            size=len(fold.clients),
            min_clients=self._study.common.min_clients,
        )

    def _batches(self, paths: list[str], position: int, number: int) -> tf.data.Dataset:
        """What the client at a position trains on in a round."""
        size = self._settings.ccst_size
        return pipeline.batches(
            paths, np.zeros(len(paths)), size=(size, size), channels=3, batch=self._settings.ccst_batch,
            seed=stream(LEARNING_SEED, number, position), formats=self._pool.formats,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Styles:
    """What gives any image the style of any client of a federation."""

    encoder: tf.keras.Model
    decoder: tf.keras.Model
    weights: list[np.ndarray]  # of the decoder
    styles: list[adain.Style]
    settings: CcstSettings

    @functools.cached_property
    def key(self) -> str:
        """Changes with the networks and the styles."""
        parts = [*self.weights, *(part for style in self.styles for part in style), *self.encoder.get_weights()]
        return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]

    def transfer(self, images: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """uint8 images (n, height, width, 3) in the styles of these clients (n), by their numbers."""
        self.decoder.set_weights(self.weights)
        mean = np.stack([self.styles[client].mean for client in clients])
        std = np.stack([self.styles[client].std for client in clients])
        return adain.transfer(
            self.encoder, self.decoder, images, mean, std, self.settings.ccst_alpha, self.settings.ccst_side
        )


@dataclasses.dataclass(frozen=True)
class LossAlone:
    """The decoder is not measured: its training loss is all that is said of it."""

    headline: str = ""
    chosen_by: str = ""

    def evaluate(self, trained: Trained) -> Metrics:
        return {}

    def predicted(self, trained: Trained) -> pd.DataFrame:
        return pd.DataFrame()

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        return {"loss": float(row["training_loss"])}
