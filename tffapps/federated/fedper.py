"""FedPer (Arivazhagan et al. 2019): FedAvg whose clients keep the last layers, here the classifying one, to themselves.

Both parts are trained together in every step, as in the paper; its number of personal layers is 1.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from tffapps.federated.personal import PersonalPart

if TYPE_CHECKING:
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class FedPer(PersonalPart):
    name: ClassVar[str] = "fedper"

    def personal_part(self, task: Task) -> tuple[bool, ...]:
        from models.embedding import classifying_layer

        own = {id(variable) for variable in classifying_layer(task.model).weights}
        return tuple(id(variable) in own for variable in task.model.weights)
