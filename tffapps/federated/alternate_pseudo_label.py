"""Pseudo-labelling in turns: PLFL's clients (`pseudo_label`) beside a server that trains on its labels after every
average.

PLFL begins with a model that the server has trained; here a run begins with any, and its first rounds are the server's
as long as the clients are sure of nothing: a client that keeps no label takes part, as one example, with the model it
was given.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.few_labels import counted, train_on_labels
from tffapps.federated.pseudo_label import PseudoLabel

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class AlternatePseudoLabel(PseudoLabel):
    name: ClassVar[str] = "pseudo-label"

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        return counted(super().work(task, data, site))

    def server_work(self, task: Task, data: Any) -> None:
        train_on_labels(self, task, data)
