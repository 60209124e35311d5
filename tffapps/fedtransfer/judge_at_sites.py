"""`Judge` where tiles are at sites: weights go there, losses and metrics come back, labels and predictions stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine import Engine
from tffapps.errors import RunStopped
from tffapps.evaluation import at_sites
from tffapps.federated.portable import PortableFunction
from tffapps.federated.task import WeightsLayout, data_type
from tffapps.fedtransfer.data import Pool
from tffapps.fedtransfer.inputs import Inputs
from tffapps.fedtransfer.judge import Judge
from tffapps.fedtransfer.sites import Sites

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class JudgeAtSites(Judge):
    def __init__(self, inputs: Inputs, engine: Engine, sites: Sites) -> None:
        super().__init__(inputs.model, inputs.in_order, inputs.loss, inputs.spec)
        self._engine, self._sites = engine, sites
        self._total = total_loss(inputs.model, inputs.spec, inputs.loss)

    def validation_losses(
        self, weights: list[np.ndarray], pool: Pool, clients: Sequence[str], *, last: bool = False
    ) -> dict[str, float]:
        batches = {client: self._batches(pool.of("val", client)) for client in clients}
        found, missing = at_sites.answers_of(self._engine, self._total, weights, batches)
        for site, why in missing.items():
            if last:
                raise RunStopped(
                    f"the validation tiles of {site} are needed at the end ({why})."
                    " Run the same command again when it is back."
                )
        means = {site: float(total) / int(count) for site, (total, count) in found.items() if count}
        return {client: means.get(client, float("nan")) for client in clients}

    def _by_client(self, weights: list[np.ndarray], pool: Pool) -> dict[str, np.ndarray]:
        return self._sites.grains(weights, pool)


def total_loss(model: tf.keras.Model, element_spec: Any, loss: Loss) -> tff.Computation:
    """(weights, batches of (images, labels)) -> (sum of the losses, count)"""
    variables, weights = model.weights, WeightsLayout.of(model).specs()
    batches_spec = tf.data.DatasetSpec(element_spec)

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
