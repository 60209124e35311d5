"""How good a U-Net is: its loss on validation tiles, by which a round is chosen, and its grains on test tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tensorflow as tf

from models.unet import BOUNDARY
from tffapps.evaluation import segmentation
from tffapps.fedtransfer import GLOBAL, METRICS
from tffapps.fedtransfer.data import Pool, masks_of

Scores = dict[str, dict[str, float]]  # client or GLOBAL -> metrics


class Judge:
    """`batches` gives the tiles of some rows in order; `loss` is (labels, probabilities) -> one value for each tile."""

    def __init__(
        self,
        model: tf.keras.Model,
        batches: Callable[[pd.DataFrame], tf.data.Dataset],
        loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        spec: Any,
    ) -> None:
        self._model, self._batches = model, batches

        @tf.function(input_signature=spec)
        def losses(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            return loss(labels, model(images, training=False))

        @tf.function(input_signature=spec[:1])
        def boundary(images: tf.Tensor) -> tf.Tensor:
            return tf.argmax(model(images, training=False), axis=-1) == BOUNDARY

        self._losses, self._boundary = losses, boundary

    def validation_losses(
        self, weights: list[np.ndarray], pool: Pool, clients: Sequence[str], *, last: bool = False
    ) -> dict[str, float]:
        """The mean loss over each client's validation tiles; nan of one that is away, which it may not be at last."""
        del last  # nobody is away here
        self._model.set_weights(weights)
        return {client: self._mean_loss(pool.of("val", client)) for client in clients}

    def _mean_loss(self, rows: pd.DataFrame) -> float:
        return float(np.mean(np.concatenate([self._losses(*batch).numpy() for batch in self._batches(rows)])))

    def test(self, weights: list[np.ndarray], pool: Pool) -> Scores:
        """The metrics on each client's test tiles, and on all of them together."""
        found = self._by_client(weights, pool)
        found[GLOBAL] = np.concatenate(list(found.values()))
        return {name: dict(zip(METRICS, rows.mean(axis=0).tolist())) for name, rows in found.items()}

    def _by_client(self, weights: list[np.ndarray], pool: Pool) -> dict[str, np.ndarray]:
        return {client: self.grains(pool.of("test", client), weights) for client in pool.clients}

    def grains(self, rows: pd.DataFrame, weights: list[np.ndarray]) -> np.ndarray:
        """(tiles, METRICS)"""
        pairs = zip(masks_of(rows).astype(bool), self.predict(rows, weights))
        return np.array([list(segmentation.scores(*pair).values()) for pair in pairs])

    def predict(self, rows: pd.DataFrame, weights: list[np.ndarray]) -> np.ndarray:
        """bool (n, height, width), true on boundaries."""
        self._model.set_weights(weights)
        return np.concatenate([self._boundary(images).numpy() for images, _ in self._batches(rows)])
