"""The relay in front of a site's worker: guards see all that passes, refuse it in one line, or send something else."""

from __future__ import annotations

import contextlib
import socket

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.engine.closed import need_namespaces
from tests.site.conftest import files
from tffapps.engine import remote
from tffapps.engine.tff_messages import executor_pb2
from tffapps.site.guarded_worker import GuardedWorker
from tffapps.site.relay import Call, Refused
from tffapps.wire.channel import channel


@tff.tensorflow.computation(np.int32)
def doubled(x):
    return 2 * x


DOUBLED = tff.framework.serialize_computation(doubled)


class Watching:
    """Refuses 13, answers 100 where a call of something that it noted would have been answered."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def request(self, call: Call) -> None:
        self.seen.append(f"{call.caller} {call.method}")
        if call.method == "CreateValue":
            if call.message.value.array.int32_list.value == [13]:
                raise Refused("thirteen")
            if call.made.computation:
                call.made.notes["of"] = "doubled"

    def answer(self, call: Call, content: bytes) -> bytes:
        function, argument = call.value.parts
        self.seen.append(f"{function.notes} {argument.computation!r}")
        answer = executor_pb2.ComputeResponse.FromString(content)
        answer.value.array.int32_list.value[0] += 100
        return answer.SerializeToString()


class Written:
    """What was written down; nothing more can be while it is full."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.full = False

    def write(self, call: Call, decision: str, answer: int) -> None:
        self.lines.append(f"{call.method} {decision} {answer > 0}")
        if self.full:
            raise Refused("the log is full")


JOURNAL = Written()


@pytest.fixture(scope="module")
def guarded(folder):
    need_namespaces()
    listener, guard = socket.create_server(("127.0.0.1", 0)), Watching()
    address = f"localhost:{listener.getsockname()[1]}"
    own = {"/tffapps.Site/Echo": lambda caller, content: f"{caller} said ".encode() + content}
    worker = GuardedWorker(
        listener, name="site a", certificates=files(folder, "a"), guards=[guard], own=own, journal=JOURNAL
    )
    with contextlib.closing(channel(address, files(folder, "coordinator"))) as way:
        yield remote.RemoteWorker(way, lambda: True), guard, way, worker
    worker.stop()


def number(value: int):
    return remote.serialized(np.int32(value), tff.TensorType(np.int32))


def test_guards_see_what_passes_and_may_change_it(guarded):
    worker, guard, _, _ = guarded
    assert worker.evaluate(DOUBLED, number(4), doubled.type_signature.result).numpy() == 108
    assert guard.seen[-5:] == [
        "coordinator CreateValue",
        "coordinator CreateCall",
        "coordinator Compute",
        "{'of': 'doubled'} ''",
        "coordinator Dispose",
    ]


def test_a_refusal_is_one_line_at_both_ends(guarded, caplog):
    with pytest.raises(remote.WorkFailed, match=r"^refused by the site: thirteen$"):
        guarded[0].evaluate(DOUBLED, number(13), doubled.type_signature.result)
    assert [record.message for record in caplog.records] == ["refused CreateValue of coordinator: thirteen"]


def test_what_the_site_answers_itself_and_what_nobody_does(guarded):
    assert guarded[2].unary_unary("/tffapps.Site/Echo")(b"this") == b"coordinator said this"
    with pytest.raises(Exception, match="UNIMPLEMENTED"):
        guarded[2].unary_unary("/tffapps.Site/Other")(b"this")


def test_values_of_nobody_are_not_computed(guarded):
    worker = guarded[0]
    stranger = executor_pb2.ValueRef(id="0")
    with pytest.raises(remote.WorkerLost):
        worker._ask(worker._stub.Compute, executor_pb2.ComputeRequest(executor=worker._executor, value_ref=stranger))


def test_what_a_worker_says_of_its_failure_stays_at_the_site(guarded, caplog):
    wrong = remote.serialized(np.float32(3), tff.TensorType(np.float32))
    with pytest.raises(remote.WorkFailed, match=r"^its worker failed \([a-z_]*\); the site's log says more$"):
        guarded[0].evaluate(DOUBLED, wrong, doubled.type_signature.result)
    assert "float" in caplog.records[0].message


def test_everything_is_written_down_or_does_not_leave(guarded):
    worker, _, way, _ = guarded
    JOURNAL.lines.clear()
    worker.evaluate(DOUBLED, number(4), doubled.type_signature.result)
    way.unary_unary("/tffapps.Site/Echo")(b"this")
    with pytest.raises(remote.WorkFailed):
        worker.evaluate(DOUBLED, number(13), doubled.type_signature.result)
    assert JOURNAL.lines == [
        "CreateValue passed True", "CreateCall passed True", "Compute passed True", "Dispose passed False",
        "Echo passed True", "CreateValue refused: thirteen False",
    ]  # fmt: skip
    JOURNAL.full = True
    with pytest.raises(remote.WorkFailed, match="the log is full"):
        worker.call("/tffapps.Site/Echo", b"this")
    JOURNAL.full = False
