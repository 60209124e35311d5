"""FedYogi (Reddi et al. 2021, algorithm 2): FedAvg with the Yogi optimiser at the server, on the trained weights."""

import dataclasses
from typing import Any, ClassVar

from tffapps.federated.lazy import tff
from tffapps.federated.method import Method
from tffapps.settings import setting


@dataclasses.dataclass(frozen=True)
class FedYogi(Method):
    name: ClassVar[str] = "fedyogi"
    record_passes: ClassVar[int] = 1

    yogi_learning_rate: float = setting(
        0.01, "server learning rate (Reddi et al. 2021, table 8: 10^-2 for images)", above=0
    )
    yogi_beta1: float = setting(0.9, "decay of the first moment (Reddi et al. 2021)", least=0, below=1)
    yogi_beta2: float = setting(0.99, "decay of the second moment (Reddi et al. 2021)", least=0, below=1)
    yogi_epsilon: float = setting(1e-3, "adaptivity, tau (Reddi et al. 2021)", above=0)

    def server_optimizer(self) -> Any:
        return tff.learning.optimizers.build_yogi(
            self.yogi_learning_rate,
            beta_1=self.yogi_beta1,
            beta_2=self.yogi_beta2,
            epsilon=self.yogi_epsilon,
        )
