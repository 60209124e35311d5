"""One client's values in a pass, and the aggregates that they are folded into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tensorflow_federated import framework as _f

from tffapps.engine.plan import Step, argument
from tffapps.engine.values import Struct

if TYPE_CHECKING:
    from tffapps.engine.in_process import Run


class ClientValues:
    """The values of one client in one pass, each worked out when it is first asked for."""

    def __init__(self, run: Run, client: int) -> None:
        self._run = run
        self.client = client
        self._values: dict[str, Any] = {}

    def given(self, values: Mapping[str, Any]) -> None:
        """Steps that were done elsewhere."""
        self._values.update(values)

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            kept, value = self._run.kept_value(name, self.client)
            self._values[name] = value if kept else self._run.client_call(self._run.client_step(name), self)
        return self._values[name]

    def evaluate(self, block: _f.ComputationBuildingBlock) -> Any:
        return self._run.client_value(block, self)


class Fold:
    """A `federated_aggregate` in progress: zero, then accumulate client by client, then report."""

    def __init__(self, run: Run, step: Step) -> None:
        self.name = step.name
        self.value = argument(step.call, 0)
        self.total = run.server_value(argument(step.call, 1))
        self._accumulate = run.server_value(argument(step.call, 2))
        self._report = run.server_value(argument(step.call, 4))  # 3 merges partial totals: there is just one

    def add(self, value: Any) -> None:
        self.total = self._accumulate(Struct([(None, self.total), (None, value)]))

    def report(self) -> Any:
        return self._report(self.total)
