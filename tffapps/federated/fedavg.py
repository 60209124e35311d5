"""FedAvg (McMahan et al. 2017, algorithm 1): the method every other one is measured against.

Deviation: BatchNorm statistics are averaged like weights; TFF's own learning processes leave them behind.
"""

import dataclasses
from typing import ClassVar

from tffapps.federated.method import Method


@dataclasses.dataclass(frozen=True)
class FedAvg(Method):
    record_passes: ClassVar[int] = 1
