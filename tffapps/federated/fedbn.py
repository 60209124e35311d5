"""FedBN (Li et al. 2021): FedAvg whose clients keep their BatchNorm layers, parameters and statistics, to themselves.

For clients whose images look different: each normalises by its own statistics, all else is shared.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from tffapps.federated.personal import PersonalPart, norm_part

if TYPE_CHECKING:
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class FedBN(PersonalPart):
    name: ClassVar[str] = "fedbn"

    def personal_part(self, task: Task) -> tuple[bool, ...]:
        return norm_part(task, self.name, statistics_only=False)
