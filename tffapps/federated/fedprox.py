"""FedProx (Li et al. 2020, equation 2): FedAvg whose local loss also has mu/2 · ‖w − w_global‖².

The gradient of that term, mu · (w − w_global), is added as it stands: no second term in the tape.
With mu = 0 it is FedAvg.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from tffapps.federated.lazy import tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import LossAndGradients, Tensors


@dataclasses.dataclass(frozen=True)
class FedProx(Method):
    name: ClassVar[str] = "fedprox"
    record_passes: ClassVar[int] = 1

    mu: float = setting(0.01, "weight of the proximal term", least=0)

    def gradients(
        self, loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        loss, gradients = loss_and_gradients()
        return loss, [g + self.mu * (v - s) for g, v, s in zip(gradients, variables, start)]
