"""FedNova (Wang et al. 2020, equations 8 and 10): FedAvg that counts every client's steps the same.

A client that takes more steps moves farther, and in FedAvg the common model ends nearer to its optimum. Here an update
is divided by the number of steps behind it (with momentum by the sum of what each gradient has added to the model, the
paper's ‖a_i‖₁) and the mean of these is multiplied by the mean number of steps. Where all clients take equally many
steps it is FedAvg.

Deviations: Adam's steps are counted as steps of plain SGD. BatchNorm's statistics are averaged as in FedAvg: they
follow the data, not the length of the way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.lazy import tf
from tffapps.federated.method import Method

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class FedNova(Method):
    name: ClassVar[str] = "fednova"
    record_passes: ClassVar[int] = 1
    refused_aggregators: ClassVar[Mapping[str, str]] = {
        "dp": "whose numbers of steps would be clipped and noised with the updates"
    }

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        """The length of a client's way, ‖a_i‖₁."""
        return [tf.TensorSpec([], tf.float32)]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        variables = task.model.trainable_variables
        start = [variable.read_value() for variable in variables]
        done = self.train(task, data)
        length = self.length(done.steps)
        for variable, value in zip(variables, start):
            variable.assign(value + tf.math.divide_no_nan(variable - value, length))
        return done._replace(sent=(length,))

    def length(self, steps: tf.Tensor) -> tf.Tensor:
        """Of the way of so many steps along a gradient that stays the same, in steps of plain SGD."""
        rho = self.momentum if self.optimizer == "sgd" else 0.0
        return (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)

    def mean_update(self, update: Tensors, sent: Tensors) -> Tensors:
        return [sent[0] * value for value in update]
