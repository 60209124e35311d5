"""FedAdam (Reddi et al. 2021, algorithm 2): FedAvg with Adam at the server, on the mean update of the trained weights.

TFF's Adam corrects the moments for their start at zero, which the paper's algorithm does not; the first rounds are
larger for it. With both decays 0 and a rate and tau that are equal and far above any update, it is FedAvg.
"""

import dataclasses
from typing import Any, ClassVar

from tffapps.federated.lazy import tff
from tffapps.federated.method import Method
from tffapps.settings import setting


@dataclasses.dataclass(frozen=True)
class FedAdam(Method):
    name: ClassVar[str] = "fedadam"
    record_passes: ClassVar[int] = 1

    adam_learning_rate: float = setting(0.01, "FedAdam: server learning rate (FedYogi's)", above=0)
    adam_beta1: float = setting(0.9, "FedAdam: decay of the first moment (Reddi et al. 2021)", least=0, below=1)
    adam_beta2: float = setting(0.99, "FedAdam: decay of the second moment (Reddi et al. 2021)", least=0, below=1)
    adam_epsilon: float = setting(1e-3, "FedAdam: adaptivity, tau (Reddi et al. 2021)", above=0)

    def server_optimizer(self) -> Any:
        return tff.learning.optimizers.build_adam(
            self.adam_learning_rate, beta_1=self.adam_beta1, beta_2=self.adam_beta2, epsilon=self.adam_epsilon
        )
