"""Ditto (Li et al. 2021, algorithm 1): FedAvg, and beside it each client's own model, drawn to the global one.

After its share in FedAvg a client trains its own model on the same batches with gradient + lambda · (v − w), where w is
the global model that the round began with. The global model is FedAvg's, to the last number; lambda = 0 is training
alone. Twice FedAvg's work, and its bytes. BatchNorm's statistics are the own model's own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.lazy import np, tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult, LossAndGradients, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class Ditto(Method):
    name: ClassVar[str] = "ditto"
    personal: ClassVar[bool] = True

    ditto_lambda: float = setting(0.1, "Ditto: pull of the own model to the global one (of the paper's grid)", least=0)

    def first_kept(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The client's own model."""
        return [np.asarray(value) for value in weights]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        weights, given = task.model.weights, [variable.read_value() for variable in task.model.trainable_variables]
        done = self.train(task, data)
        ends = [variable.read_value() for variable in weights]
        for variable, value in zip(weights, site.kept):
            variable.assign(value)

        def rule(
            loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
        ) -> tuple[tf.Tensor, Tensors]:
            loss, gradients = loss_and_gradients()
            return loss, [g + self.ditto_lambda * (v - w) for g, v, w in zip(gradients, variables, given)]

        beside = self.train(task, data, rule)
        own = tuple(variable.read_value() for variable in weights)
        for variable, value in zip(weights, ends):
            variable.assign(value)
        return done._replace(kept=own, overflowed=done.overflowed + beside.overflowed)

    def own_model(self, task: Task, weights: Sequence[np.ndarray], kept: Sequence[np.ndarray]) -> list[np.ndarray]:
        return list(kept)
