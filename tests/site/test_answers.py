"""A site that answers with a graph instead of numbers: refused and named, and the graph is not evaluated."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2, executor_pb2_grpc

from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.site.conftest import files
from tests.site.federation import Member
from tests.site.rounds import batches, clients, table_of
from tests.site.test_engine import across
from tffapps.engine import Engine, open_engine
from tffapps.errors import RunStopped, UserError
from tffapps.evaluation import at_sites
from tffapps.federated.cohort import play
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.site import data
from tffapps.wire import jobs
from tffapps.wire.messages import Message

Answer = Callable[[], executor_pb2.Value]


def writing(target: pathlib.Path) -> executor_pb2.Value:
    """A sequence whose graph writes a file before it gives its first element."""
    answer, _ = tff.framework.serialize_value(tf.data.Dataset.range(1), tff.SequenceType(np.int64))
    graph = tf.compat.v1.GraphDef.FromString(answer.sequence.serialized_graph_def)
    with tf.Graph().as_default() as writer:
        tf.io.write_file(str(target), "written", name="write")
    graph.node.extend(writer.as_graph_def().node)
    next(node for node in graph.node if node.op == "RangeDataset").input.append("^write")
    answer.sequence.serialized_graph_def = graph.SerializeToString()
    return answer


@pytest.fixture
def attack(tmp_path):
    """An answer that writes a file when TFF reads it, as is seen here, and that file, which is not there."""
    target = tmp_path / "written"
    answer = writing(target)
    tff.framework.deserialize_value(answer, tff.TensorType(np.str_))
    assert target.read_text() == "written"
    target.unlink()
    return answer, target


class _Answering(executor_pb2_grpc.ExecutorGroupServicer):
    """Does nothing of what it is asked, and answers all the same."""

    def __init__(self, first: Answer, later: Answer) -> None:
        self._first, self._later, self._asked = first, later, 0

    def GetExecutor(self, request, context):
        return executor_pb2.GetExecutorResponse(executor=executor_pb2.ExecutorId(id="x"))

    def CreateValue(self, request, context):
        return executor_pb2.CreateValueResponse(value_ref=executor_pb2.ValueRef(id="x"))

    def CreateCall(self, request, context):
        return executor_pb2.CreateCallResponse(value_ref=executor_pb2.ValueRef(id="x"))

    def Compute(self, request, context):
        self._asked += 1
        return executor_pb2.ComputeResponse(value=(self._first if self._asked == 1 else self._later)())

    def Dispose(self, request, context):
        return executor_pb2.DisposeResponse()

    def DisposeExecutor(self, request, context):
        return executor_pb2.DisposeExecutorResponse()


@contextlib.contextmanager
def answering(folder: pathlib.Path, name: str, first: Answer, later: Answer) -> Iterator[str]:
    """A site's address: it has the site's certificate, and answers the first time and later what it likes."""
    certificate, key, authority = (pathlib.Path(path).read_bytes() for path in files(folder, name).paths())
    server = grpc.server(futures.ThreadPoolExecutor(4))
    executor_pb2_grpc.add_ExecutorGroupServicer_to_server(_Answering(first, later), server)
    itself = grpc.unary_unary_rpc_method_handler(lambda content, context: later().SerializeToString())
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("tffapps.Site", {"Ask": itself})])
    shown = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", shown)
    server.start()
    try:
        yield f"localhost:{port}"
    finally:
        server.stop(0).wait()


def text(content: bytes) -> executor_pb2.Value:
    return tff.framework.serialize_value(content, tff.TensorType(np.str_))[0]


@pytest.fixture
def description(noise):
    """What site b would publish."""
    published = {**data.describe(data.load(noise, "b"), "b"), "formats": ["png"]}
    return lambda: text(json.dumps(published).encode())


@contextlib.contextmanager
def answering_later(folder, description: Answer, later: Answer, *others: str) -> Iterator[tuple[str, Engine]]:
    """Site b, which publishes what it should and then answers what it likes; an engine over the others and it."""
    with (
        answering(folder, "b", description, later) as address,
        open_engine(",".join([*others, address]), files(folder, "coordinator")) as engine,
    ):
        yield address, engine


def refuse() -> executor_pb2.Value:
    raise ValueError("no\n\x1b[2Jtffapps: done")  # which gRPC makes a status of


def test_while_connecting(attack, folder):
    answer, target = attack
    with answering(folder, "b", lambda: answer, lambda: answer) as address:
        message = f"^{address}: refused what the site answered: expected str, found sequence; only arrays and"
        with pytest.raises(UserError, match=message), open_engine(address, files(folder, "coordinator")):
            pass
    assert not target.exists()


def test_other_answers_while_connecting(folder, noise):
    published = data.describe(data.load(noise, "b"), "b")
    swollen = {**published, "images": {**published["images"], "train": dict.fromkeys(published["classes"], 10**8)}}
    wrong = {
        "publishes is not as it should be: the field 'images'": lambda: text(json.dumps(swollen).encode()),
        "expected str in at most 16777216 bytes, found": lambda: text(bytes(2**24)),
        "cannot tell what the site publishes: Exception calling application: no..\\[2Jtffapps: done$": refuse,
    }
    for message, answer in wrong.items():
        with answering(folder, "b", answer, answer) as address:
            opened = open_engine(address, files(folder, "coordinator"))
            with pytest.raises(UserError, match=f"^{address}: .*{message}"), opened:
                pass


def test_in_a_round(attack, description, members, folder, noise, tiny_task, tiny_weights):
    answer, target = attack
    round_ = build_round(tiny_task, FedAvg(learning_rate=0.1))
    with answering_later(folder, description, lambda: answer, members[0].address) as (address, engine):
        outcome = play(round_, round_.start(tiny_weights), clients(table_of(engine, noise)), 1, min_clients=1)
    assert not target.exists()
    assert outcome.took_part == 1 and list(outcome.reports) == ["a"]
    with open_engine("in-process") as engine:
        alone = play(round_, round_.start(tiny_weights), clients(table_of(engine, noise)), 1, 1, asked=[0])
    assert largest_difference(outcome.state.weights, alone.state.weights) < 1e-5
    refused = f"failed: {address}: refused what site b answered: expected a struct of "
    assert outcome.left_out["b"].startswith(refused) and "found sequence" in outcome.left_out["b"]


def test_in_a_test_of_the_model(attack, description, folder, noise, tiny_task, tiny_weights):
    answer, target = attack
    predictor = at_sites.predictor(tiny_task.model, tiny_task.client_spec.element_spec)
    with answering_later(folder, description, lambda: answer) as (address, engine):
        table = table_of(engine, noise)
        test = batches(table[table.split == "test"], shuffle=False)
        found = at_sites.predict(engine, predictor, tiny_weights, {"b": test})
    assert not target.exists()
    assert found.missing["b"].startswith(f"{address}: refused what site b answered: expected a struct of 2 elements")


def test_when_asked_to_prepare_something(attack, description, folder):
    answer, target = attack
    with answering_later(folder, description, lambda: answer) as (_, engine):
        with pytest.raises(UserError, match=r"^site b sent something that cannot be read \("):
            engine.ask({"b": Message({jobs.JOB: "stains"})})
        engine.tell(["b"], "a line")
    assert not target.exists()
    with answering_later(folder, description, refuse) as (address, engine):
        with pytest.raises(RunStopped, match=f"^{address}: site b could not be asked to do stains: .*: no"):
            engine.ask({"b": Message({jobs.JOB: "stains"})})
        engine.tell(["b"], "a line")


@tff.tensorflow.computation
def every_kind():
    words = tf.constant([["x", "y\0"]])
    numbers = {dtype.name: (tf.cast(1, dtype), tf.cast([0, 1], dtype)) for dtype in (tf.bool, tf.int64, tf.float16)}
    return words, tf.constant(""), numbers, tf.where(tf.constant([True, False])), tf.zeros([0, 3]), ()


def test_what_an_honest_worker_answers_is_read(noise, folder):
    """By one without a gate: texts would not leave."""
    need_namespaces()
    site = Member(noise, folder, "a", gate=False)
    with contextlib.closing(site), across([site], folder) as engine:
        words, nothing, numbers, places, empty, unit = engine.at_site("a", every_kind)
    assert words.tolist() == [[b"x", b"y\0"]] and nothing == b"" and len(unit) == 0
    assert [(one.item(), many.tolist()) for one, many in numbers.values()] == 3 * [(1, [0, 1])]
    assert places.tolist() == [[0]] and empty.shape == (0, 3)
