"""SiloBN (Andreux et al. 2020): FedAvg whose clients keep the statistics of their BatchNorm layers to themselves.

Unlike in FedBN the layers' trained parameters are shared. Training uses a batch's statistics, so that all trained
weights are FedAvg's: what differs is the statistics that a client's images are tested with. A site that is new needs
images of its own for them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from tffapps.federated.personal import PersonalPart, norm_part

if TYPE_CHECKING:
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class SiloBN(PersonalPart):
    name: ClassVar[str] = "silobn"

    def personal_part(self, task: Task) -> tuple[bool, ...]:
        return norm_part(task, self.name, statistics_only=True)
