"""FedLESAM (Fan et al. 2024): sharpness-aware steps along the federation's ascent, at the price of FedAvg.

FedSAM looks for the sharpest direction of each client's own loss. Here it is estimated for the federation's loss, as
the way back: a step's gradient is taken at w + rho · (w_previous − w_now)/‖w_previous − w_now‖, over all trained
weights, where w_now is the global model that the round begins with and w_previous that of the round before. The offset
stays the same for a whole local training, and a step needs one pass: its loss, reported, and BatchNorm's moving
statistics are those of the model beside w.

Without a round before, or with rho = 0, it is FedAvg. Deviations: clients keep nothing between rounds, so the server
sends the previous trained weights along, nearly twice the bytes; a client that missed rounds therefore goes by the
federation's last update, where the paper's goes by the difference to the last model it has seen. The norm is
over all trained weights at once; the authors' code divides by the sum of the tensors' norms, a smaller offset.
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
class FedLESAM(Method):
    name: ClassVar[str] = "fedlesam"
    record_passes: ClassVar[int] = 1

    lesam_rho: float = setting(0.1, "FedLESAM: how far from the weights the gradient is taken (its code)", least=0)

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        return self.next_memory(task, [], [], list(weights), list(weights))

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        from tffapps.federated.task import WeightsLayout

        return WeightsLayout.of(task.model).trained(before)

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from tffapps.federated.perturbed import beside, of_length

        variables = task.model.trainable_variables
        offsets = of_length(self.lesam_rho, [old - now for old, now in zip(site.memory, variables)])

        def rule(
            loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
        ) -> tuple[tf.Tensor, Tensors]:
            return beside(variables, offsets, loss_and_gradients)

        return self.train(task, data, rule)
