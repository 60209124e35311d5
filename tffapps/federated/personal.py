"""Methods after which every client has a model of its own: a part of the weights stays with it, the rest is FedAvg's.

A client keeps its part between rounds and puts it into the model that it is given; to the server it sends no change of
it, so that the global model has there what it began with. What is judged is each client's own model, global weights
and its part, on its own images (`evaluation.personal`). With one client that is FedAvg's model.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.errors import UserError
from tffapps.federated.lazy import np
from tffapps.federated.method import Method

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class PersonalPart(Method):
    """What FedBN, SiloBN and FedPer are: they differ in `personal_part` alone."""

    personal: ClassVar[bool] = True

    def first_kept(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        return [np.asarray(value) for value, own in zip(weights, self.personal_part(task)) if own]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        variables = [variable for variable, own in zip(task.model.weights, self.personal_part(task)) if own]
        given = [variable.read_value() for variable in variables]
        for variable, value in zip(variables, site.kept):
            variable.assign(value)
        done = self.train(task, data)
        kept = tuple(variable.read_value() for variable in variables)
        for variable, value in zip(variables, given):
            variable.assign(value)
        return done._replace(kept=kept)

    def own_model(self, task: Task, weights: Sequence[np.ndarray], kept: Sequence[np.ndarray]) -> list[np.ndarray]:
        parts = iter(kept)
        return [next(parts) if own else value for value, own in zip(weights, self.personal_part(task))]


def norm_part(task: Task, method: str, statistics_only: bool) -> tuple[bool, ...]:
    """The weights of BatchNorm layers that are trained, or their moving statistics alone."""
    from tffapps.federated.task import batch_norms

    layers = batch_norms(task.model)
    if not layers:
        raise UserError(
            f"--methods {method}: the network has no BatchNorm that is trained, so it would be FedAvg; leave it out, or"
            " try --norm batch or --train-from all"
        )
    own = {
        id(variable)
        for layer in layers
        for variable in ((layer.moving_mean, layer.moving_variance) if statistics_only else layer.weights)
    }
    return tuple(id(variable) in own for variable in task.model.weights)
