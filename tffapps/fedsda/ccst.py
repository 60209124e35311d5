"""CCST for a federation: a decoder that all clients train together, and every client's style.

No image leaves a client: what is sent are the decoder's weights, by FedAvg, and each client's style, two numbers for
each channel of VGG-19's relu4_1. Both are kept with the runs and used again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models import adain as networks
from models import vgg
from models.weights import WeightsError
from preprocessing import adain
from tffapps import Client, FedAvg, Initial, Metrics, Pool, Study, Task, Trained, Trial, UserError, name_of, stream
from tffapps.data import pipeline
from tffapps.data.made import stacks
from tffapps.fedsda import LEARNING_SEED, CcstDecoderSettings, CcstSettings
from tffapps.fedsda.data import Fold

_IMAGES = 32  # encoded at once for a style


class StyleTransfer:
    """The encoder, and the decoder that each federation trains for it."""

    def __init__(self, study: Study, pool: Pool) -> None:
        self._study, self._pool = study, pool
        self._settings, self._alpha = study.flags[CcstDecoderSettings], study.flags[CcstSettings].ccst_alpha
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
            styles = [self._style(list(fold.of_client(client).path)) for client in fold.clients]
            self._styles[fold.identity] = Styles(self._encoder, self._decoder, weights, styles, self._alpha)
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

    def _style(self, paths: list[str]) -> adain.Style:
        return adain.style_of(self._encoder, (images for _, images in stacks(paths, batch=_IMAGES, rejects={})))


@dataclasses.dataclass(frozen=True)
class Styles:
    """What gives any image the style of any client of a federation."""

    encoder: tf.keras.Model
    decoder: tf.keras.Model
    weights: list[np.ndarray]  # of the decoder
    styles: list[adain.Style]
    alpha: float

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
        return adain.transfer(self.encoder, self.decoder, images, mean, std, self.alpha)


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
