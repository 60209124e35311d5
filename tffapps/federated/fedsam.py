"""FedSAM (Qu et al. 2022): FedAvg whose clients take sharpness-aware steps (Foret et al. 2021, algorithm 1).

A step goes along the gradient taken at w + rho · g/‖g‖, where g is the gradient at w and the norm is over all trained
weights, so that flat minima win. Two passes a step; the loss that is reported is that at w.

BatchNorm's moving statistics come from the pass at w alone. With rho = 0 it is FedAvg.
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
class FedSAM(Method):
    name: ClassVar[str] = "fedsam"
    record_passes: ClassVar[int] = 2  # the way up is one of them

    sam_rho: float = setting(
        0.05, "FedSAM: how far from the weights the gradient is taken (Foret et al. 2021)", least=0
    )

    def gradients(
        self, loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        from tffapps.federated.perturbed import beside, of_length

        loss, ascent = loss_and_gradients()
        offsets = of_length(self.sam_rho, ascent)
        _, gradients = beside(variables, offsets, lambda: loss_and_gradients(statistics=False))
        return loss, gradients
