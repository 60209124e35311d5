"""The rounds that one command needs of a task, each built once."""

from __future__ import annotations

from typing import Any

from tffapps.federated.aggregation import Aggregation
from tffapps.federated.method import Method
from tffapps.federated.round import Round, build_round
from tffapps.federated.task import Task


class Rounds:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._built: dict[Any, Round] = {}

    def of(self, method: Method, aggregation: Aggregation, clients: int) -> Round:
        """The number of clients matters to unweighted aggregation only."""
        key = (method, aggregation, None if aggregation.weighted else clients)
        if key not in self._built:
            self._built[key] = build_round(self._task, method, aggregation, clients)
        return self._built[key]
