"""Writes down which operations pass the sites of tests: `pytest -p tests.site.recording tests/site/test_classify.py`.

Adds to the file that the variable TFFAPPS_RECORD names, one JSON object a line: the operations and texts of each
computation and pipeline, and the types of what it takes and gives. Of rounds that are played in one process it writes
what would be sent to sites: `pytest -p tests.site.recording tests/federated`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import Any

from tffapps.site import graphs, guarded_worker
from tffapps.site.relay import Call

_PATH = re.compile(rb"(train|validation|test)/\d+/\d{6}(\.mask)?|made/[0-9a-f]{20}/\d{6}(\.mask)?")


class Recorder:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def request(self, call: Call) -> None:
        if call.method == "CreateValue":
            self._value(call.message.value)

    def answer(self, call: Call, content: bytes) -> bytes:
        return content

    def _value(self, value: Any) -> None:
        kind = value.WhichOneof("value")
        if kind == "computation":
            function = value.computation.type.function
            types = {"takes": _shown(function.parameter), "gives": _shown(function.result)}
            self._write(kind, graphs.of_computation(value.computation), types)
        elif kind == "sequence":
            self._write(kind, graphs.of_sequence(value.sequence), {})
        elif kind == "struct":
            for element in value.struct.element:
                self._value(element.value)
        elif kind != "array":
            self._write(str(kind), graphs.Content(), {})

    def _write(self, kind: str, content: graphs.Content, types: dict[str, Any]) -> None:
        texts = sorted(text.decode(errors="replace") for text in content.texts if not _PATH.fullmatch(text))
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        row = {"kind": kind, "operations": sorted(content.operations), "texts": texts, **types}
        line = json.dumps(row)
        if line not in self._seen:
            self._seen.add(line)
            with open(os.environ["TFFAPPS_RECORD"], "a") as out:
                out.write(json.dumps({"test": test, **row}) + "\n")


def _shown(kind: Any) -> Any:
    which = kind.WhichOneof("type")
    if which == "tensor":
        return f"{kind.tensor.dtype}{list(kind.tensor.dims)}"
    if which == "struct":
        return [_shown(element.value) for element in kind.struct.element]
    return which


def pytest_configure() -> None:
    made = guarded_worker.GuardedWorker.__init__

    def with_recorder(self: Any, *arguments: Any, guards: Any = (), **named: Any) -> None:
        made(self, *arguments, guards=[*guards, Recorder()], **named)

    guarded_worker.GuardedWorker.__init__ = with_recorder  # type: ignore[method-assign]


def pytest_collection_finish() -> None:
    from tffapps.engine import in_process
    from tffapps.engine.client_work import ClientWork
    from tffapps.engine.plan import Plan
    from tffapps.engine.tff_messages import computation_pb2, executor_pb2

    recorder = Recorder()

    def recorded(lowered: Any) -> Plan:
        plan = Plan(lowered)
        for number in range(plan.passes):
            for raw in (False, True):
                with contextlib.suppress(NotImplementedError):  # not to be sent to sites
                    sent = ClientWork(plan.steps, number, raw).computation.SerializeToString()
                    recorder._value(executor_pb2.Value(computation=computation_pb2.Computation.FromString(sent)))
        return plan

    in_process.Plan = recorded  # type: ignore[misc, assignment]
