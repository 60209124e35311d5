"""How a U-Net is judged, here or at sites: a round is chosen by its validation loss, and its weights are tested once.

At sites weights go there, losses and metrics come back, and labels and predictions stay.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
import tensorflow as tf
import tensorflow_federated as tff

from models.unet import BOUNDARY
from tffapps import Engine, Metrics, RunStopped, Trained
from tffapps.evaluation import at_sites, stored
from tffapps.evaluation.identities import identified
from tffapps.federated.portable import PortableFunction
from tffapps.federated.task import WeightsLayout, data_type
from tffapps.fedtransfer import METRICS, grain_finding
from tffapps.fedtransfer.data import Tiles, masks_of
from tffapps.fedtransfer.grain_finding import Way
from tffapps.fedtransfer.network import Network

LOSS = "validation_loss"
Weights = Sequence[np.ndarray]
Grains = Callable[[Weights, Tiles], dict[str, np.ndarray]]


class Scoring(Protocol):
    def losses(self, weights: Weights, tiles: Tiles, clients: Sequence[str], *, last: bool) -> dict[str, float]:
        """The mean loss over each client's validation tiles.

        NaN of a client that is away; in the `last` round it is needed, and the run stops.
        """

    def grains(self, weights: Weights, tiles: Tiles) -> dict[str, np.ndarray]:
        """Of each client's test tiles: (tiles, METRICS)."""


class ScoringHere:
    """In this process."""

    def __init__(self, network: Network) -> None:
        self._network = network
        model, loss, spec = network.model, network.loss, network.spec

        @tf.function(input_signature=spec)
        def losses(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            return loss(labels, model(images, training=False))

        @tf.function(input_signature=spec[:1])
        def maps(images: tf.Tensor) -> tf.Tensor:
            return model(images, training=False)[..., BOUNDARY]

        self._losses, self._maps = losses, maps

    def losses(self, weights: Weights, tiles: Tiles, clients: Sequence[str], *, last: bool) -> dict[str, float]:
        self._network.model.set_weights(weights)
        return {client: self._mean_loss(tiles.part("val", client)) for client in clients}

    def _mean_loss(self, rows: pd.DataFrame) -> float:
        losses = [self._losses(images, labels).numpy() for images, labels in self._network.in_order(rows)]
        return float(np.mean(np.concatenate(losses)))

    def grains(self, weights: Weights, tiles: Tiles) -> dict[str, np.ndarray]:
        return {
            client: self.grains_of(tiles.part("val", client), tiles.part("test", client), weights)
            for client in tiles.clients
        }

    def grains_of(self, held_back: pd.DataFrame, rows: pd.DataFrame, weights: Weights) -> np.ndarray:
        """(tiles, METRICS) of a client's rows; those held back to validate with choose how grains are found."""
        way = self.way(held_back, weights)
        pairs = zip(masks_of(rows).astype(bool), self.maps(rows, weights))
        return np.array([grain_finding.scores(true, way.mask(boundary)) for true, boundary in pairs])

    def way(self, held_back: pd.DataFrame, weights: Weights) -> Way:
        if not self._network.chooses or not len(held_back):
            return grain_finding.PUBLISHED
        rows = held_back.iloc[grain_finding.spread(len(held_back))]
        return grain_finding.best(zip(masks_of(rows).astype(bool), self.maps(rows, weights)))

    def maps(self, rows: pd.DataFrame, weights: Weights) -> np.ndarray:
        """How likely each pixel is on a boundary: float32 (n, height, width)."""
        self._network.model.set_weights(weights)
        return np.concatenate([self._maps(images).numpy() for images, _ in self._network.in_order(rows)])

    def boundaries(self, tiles: Tiles, client: str, rows: pd.DataFrame, weights: Weights) -> np.ndarray:
        """What is found in some of a client's test tiles: bool (n, height, width), true on boundaries."""
        way = self.way(tiles.part("val", client), weights)
        return np.stack([way.mask(boundary) for boundary in self.maps(rows, weights)])


class ScoringAtSites:
    """Each client's tiles at its site."""

    def __init__(self, network: Network, engine: Engine, grains: Grains) -> None:
        """`grains` has the sites test weights."""
        self._network, self._engine, self._grains = network, engine, grains
        self._total = total_loss(network.model, network.spec, network.loss)

    def losses(self, weights: Weights, tiles: Tiles, clients: Sequence[str], *, last: bool) -> dict[str, float]:
        batches = {client: self._network.in_order(tiles.part("val", client)) for client in clients}
        answers, missing = at_sites.answers_of(self._engine, self._total, weights, batches)
        for site, why in missing.items():
            if last:
                raise RunStopped(
                    f"the validation tiles of {site} are needed at the end ({why})."
                    " Run the same command again when it is back."
                )
        means = {site: float(total) / int(count) for site, (total, count) in answers.items() if count}
        return {client: means.get(client, float("nan")) for client in clients}

    def grains(self, weights: Weights, tiles: Tiles) -> dict[str, np.ndarray]:
        return self._grains(weights, tiles)


@dataclasses.dataclass(frozen=True)
class GrainEvaluator:
    run: str  # its name, for the user
    scoring: Scoring
    tiles: Tiles
    validated: list[str]  # the clients whose validation tiles choose a round
    headline: str = LOSS
    chosen_by: str = LOSS

    def evaluate(self, trained: Trained) -> Metrics:
        """The loss on each client's validation tiles, and the mean of these."""
        losses = self.scoring.losses(trained.weights, self.tiles, self.validated, last=trained.last)
        mean = float(np.mean(list(losses.values())))
        return {LOSS: mean, **{f"{LOSS}_{client}": loss for client, loss in losses.items()}}

    def summary(self, row: Mapping[str, Any], weights: Callable[[], list[np.ndarray]]) -> dict[str, Any]:
        if not math.isfinite(row[LOSS]):
            raise RunStopped(f"{self.run}: no round has a finite validation loss; lower --learning-rate")
        return {"round": int(row["round"]), LOSS: float(row[LOSS])}

    def predicted(self, trained: Trained) -> pd.DataFrame:
        """METRICS of every test tile; its subject is the micrograph that it was cut from."""
        grains = self.scoring.grains(trained.weights, self.tiles)
        rows = [
            identified(self.tiles.part("test", client)).assign(
                part=stored.TEST, judge="", **dict(zip(METRICS, values.T))
            )
            for client, values in grains.items()
        ]
        return pd.concat(rows, ignore_index=True)


def total_loss(
    model: tf.keras.Model, element_spec: Any, loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
) -> tff.Computation:
    """(weights, batches of (images, labels)) -> (sum of the losses, count)"""
    variables, weights = model.weights, WeightsLayout.of(model).specs()
    batches_spec = tf.data.DatasetSpec(element_spec)

    @tf.function
    def add_up(weights, batches):
        for variable, value in zip(variables, weights):
            variable.assign(value)
        total, count = tf.constant(0.0, tf.float64), tf.constant(0, tf.int64)
        for images, labels in iter(batches):
            losses = loss(labels, model(images, training=False))
            total += tf.reduce_sum(tf.cast(losses, tf.float64))
            count += tf.size(losses, tf.int64)
        return total, count

    portable = PortableFunction(model, add_up, (weights, batches_spec))

    @tff.tensorflow.computation(data_type(weights), data_type(batches_spec))
    def run(weights, batches):
        return portable(list(weights), batches)

    return run
