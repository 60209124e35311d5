"""FedAvgM (Hsu et al. 2019): FedAvg with momentum at the server, on the mean update of the trained weights.

With server momentum 0 and server rate 1 it is FedAvg.
"""

import dataclasses
from typing import Any, ClassVar

from tffapps.federated.lazy import tff
from tffapps.federated.method import Method
from tffapps.settings import setting


@dataclasses.dataclass(frozen=True)
class FedAvgM(Method):
    name: ClassVar[str] = "fedavgm"
    record_passes: ClassVar[int] = 1

    server_learning_rate: float = setting(1.0, "server learning rate", above=0)
    server_momentum: float = setting(0.9, "server momentum (Hsu et al. 2019, section 4)", least=0, below=1)

    def server_optimizer(self) -> Any:
        momentum = self.server_momentum or None
        return tff.learning.optimizers.build_sgdm(self.server_learning_rate, momentum=momentum)
