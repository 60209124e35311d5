"""FedDyn (Acar et al. 2021, algorithm 1): FedAvg whose local losses are moved until their optima agree.

A client minimises loss(w) − g_i · w + alpha/2 · ‖w − w_start‖² and then takes alpha · (w − w_start) off g_i, which so
becomes its gradient at the common optimum; the server keeps h, the mean of all g_i, and sends clients the mean model
minus h / alpha to begin with. The model that is judged is the mean itself, as in the authors' code.

Deviations: the local minimum is approached by the usual local training, as in every implementation; means are weighted
by examples; a client that was away stays in h with the weight of its examples. The server sends h beside the mean
model, twice FedAvg's bytes down. In its first round it is FedProx with mu = alpha; with alpha = 0 it is FedAvg.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.lazy import np, tf
from tffapps.federated.method import Method
from tffapps.federated.variates import NOT_YET, Share, scalar, zeros_like_trained
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult, LossAndGradients, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class FedDyn(Method):
    name: ClassVar[str] = "feddyn"
    record_passes: ClassVar[int] = 1

    dyn_alpha: float = setting(0.01, "FedDyn: alpha, weight of the moving regulariser (its section 4)", least=0)

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """h, and the examples of all clients that it is the mean of."""
        return [*zeros_like_trained(task), scalar(0)]

    def first_kept(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """g_i."""
        return [*zeros_like_trained(task), scalar(NOT_YET)]

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        """Whether it is the client's first round."""
        return [tf.TensorSpec([], tf.float32)]

    def gathered_specs(self, task: Task) -> list[tf.TensorSpec]:
        """A client's number of examples, which its report holds as well."""
        return [tf.TensorSpec([], tf.float32)]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        *own, first_time = site.kept
        variables = task.model.trainable_variables
        begin = self._begin([variable.read_value() for variable in variables], site.memory[:-1])
        for variable, value in zip(variables, begin):
            variable.assign(value)

        def rule(
            loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
        ) -> tuple[tf.Tensor, Tensors]:
            loss, gradients = loss_and_gradients()
            moved = zip(gradients, own, variables, start)
            return loss, [g - g_i + self.dyn_alpha * (v - s) for g, g_i, v, s in moved]

        done = self.train(task, data, rule)
        new = [g_i - self.dyn_alpha * (variable - value) for g_i, variable, value in zip(own, variables, begin)]
        return done._replace(sent=(first_time,), gathered=(done.examples,), kept=(*new, tf.zeros_like(first_time)))

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        from tffapps.federated.task import WeightsLayout

        *h, total = memory
        newcomers, examples = sent
        share, trained = Share.of(total, newcomers, examples), WeightsLayout.of(task.model).trained
        begin = self._begin(trained(before), h)
        changes = [-self.dyn_alpha * (mean - value) for mean, value in zip(trained(after), begin)]
        return [*(share.moved(old, change) for old, change in zip(h, changes)), share.after]

    def _begin(self, mean: Tensors, h: Tensors) -> Tensors:
        """The model that clients begin with."""
        return [value - part / self.dyn_alpha for value, part in zip(mean, h)] if self.dyn_alpha else list(mean)
