"""FedAdagrad (Reddi et al. 2021, algorithm 2): FedAvg with Adagrad at the server, on the mean update.

TFF's Adagrad divides by the root of the sum of squares that begins at tau², where the paper adds tau to a root that
does. With a rate and tau that are equal and far above any update, it is FedAvg.
"""

import dataclasses
from typing import Any, ClassVar

from tffapps.federated.lazy import tff
from tffapps.federated.method import Method
from tffapps.settings import setting


@dataclasses.dataclass(frozen=True)
class FedAdagrad(Method):
    name: ClassVar[str] = "fedadagrad"
    record_passes: ClassVar[int] = 1

    adagrad_learning_rate: float = setting(0.1, "FedAdagrad: server learning rate (our choice)", above=0)
    adagrad_epsilon: float = setting(1e-3, "FedAdagrad: adaptivity, tau (Reddi et al. 2021)", above=0)

    def server_optimizer(self) -> Any:
        return tff.learning.optimizers.build_adagrad(
            self.adagrad_learning_rate, initial_preconditioner_value=self.adagrad_epsilon**2, epsilon=0.0
        )
