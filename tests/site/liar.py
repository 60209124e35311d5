"""A site that does what it is asked and lies about what came of it: between the coordinator and an honest site."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import numpy as np
from tensorflow_federated.proto.v0 import executor_pb2, executor_pb2_grpc

from tests.site.conftest import files
from tffapps.wire.grpc_options import OPTIONS

Alter = Callable[[executor_pb2.Value], None]
METHODS = ("GetExecutor", "CreateValue", "CreateCall", "CreateStruct", "CreateSelection", "Dispose", "DisposeExecutor")


class Liar(executor_pb2_grpc.ExecutorGroupServicer):
    """`alter` is what it does to its answers; None: it is honest."""

    def __init__(self, site: executor_pb2_grpc.ExecutorGroupStub) -> None:
        self._site, self.alter = site, None
        for name in METHODS:
            setattr(self, name, self._passed_on(getattr(site, name)))

    def _passed_on(self, method):
        return lambda request, context: method(request)

    def Compute(self, request, context):
        answer = self._site.Compute(request)
        if self.alter is not None:
            self.alter(answer.value)
        return answer


@contextlib.contextmanager
def lying(folder: pathlib.Path, name: str, port: int) -> Iterator[tuple[str, Liar]]:
    """Its address; it has the certificate of the site at the port, and all keys."""
    certificate, key, authority = (pathlib.Path(path).read_bytes() for path in files(folder, name).paths())
    ours, own, _ = (pathlib.Path(path).read_bytes() for path in files(folder, "coordinator").paths())
    shown = grpc.ssl_channel_credentials(authority, own, ours)
    server = grpc.server(futures.ThreadPoolExecutor(4), options=OPTIONS)
    with grpc.secure_channel(f"localhost:{port}", shown, options=OPTIONS) as channel:
        liar = Liar(executor_pb2_grpc.ExecutorGroupStub(channel))
        executor_pb2_grpc.add_ExecutorGroupServicer_to_server(liar, server)
        asked = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
        address = f"localhost:{server.add_secure_port('127.0.0.1:0', asked)}"
        server.start()
        try:
            yield address, liar
        finally:
            server.stop(0).wait()


def part(answer: executor_pb2.Value, *path: int) -> executor_pb2.Value:
    for index in path:
        answer = answer.struct.element[index].value
    return answer


def arrays(value: executor_pb2.Value) -> Iterator[executor_pb2.Value]:
    if value.WhichOneof("value") == "struct":
        for element in value.struct.element:
            yield from arrays(element.value)
    else:
        yield value


def change(value: executor_pb2.Value, function: Callable[[np.ndarray], np.ndarray]) -> None:
    """Of all arrays of single-precision numbers in an answer."""
    for leaf in arrays(value):
        array = leaf.array
        if array.content:
            array.content = function(np.frombuffer(array.content, np.float32)).astype(np.float32).tobytes()
        elif len(array.float32_list.value):
            changed = function(np.asarray(array.float32_list.value, np.float32))
            array.float32_list.value[:] = changed.tolist()
