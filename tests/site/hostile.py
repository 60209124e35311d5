"""Programs that attack, each a process of its own without TensorFlow: what they send was written into files for them.

    python -m tests.site.hostile coordinator HOST:PORT CERTIFICATES FOLDER    asks for all in a folder, over and over
    python -m tests.site.hostile site CERTIFICATES NAME FIRST LATER           answers with files, whatever is asked
    python -m tests.site.hostile stranger PORT                                70 connections, on which nothing is said

They begin with a line, and end when their standard input does.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import select
import socket
import sys
from concurrent import futures

import grpc

from tffapps.engine.tff_messages import computation_pb2, executor_pb2
from tffapps.wire.certificates import Certificates
from tffapps.wire.channel import channel

SERVICE = "/tensorflow_federated.v0.ExecutorGroup/"
PAUSE = 0.2  # seconds between two passes


def told_to_end(seconds: float) -> bool:
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def shown(folder: str, name: str) -> Certificates:
    return Certificates(*(f"{folder}/{file}" for file in (f"{name}.pem", f"{name}.key", "ca.pem")))


def coordinator(address: str, certificates: str, folder: str) -> None:
    """Ends with a line: how many passes, and by request what came of it."""
    with contextlib.closing(channel(address, shown(certificates, "coordinator"))) as way:

        def ask(method: str, **fields):
            request = getattr(executor_pb2, f"{method}Request")(**fields)
            response = getattr(executor_pb2, f"{method}Response")
            serialize = type(request).SerializeToString
            return way.unary_unary(SERVICE + method, serialize, response.FromString)(request)

        clients = {"placement": computation_pb2.Placement(uri="clients"), "cardinality": 0}
        executor = ask("GetExecutor", cardinalities=[clients]).executor

        def tries(file: pathlib.Path) -> str:
            sent = [executor_pb2.Value.FromString(file.read_bytes())]
            with contextlib.suppress(FileNotFoundError):
                sent.append(executor_pb2.Value.FromString(file.with_suffix(".argument").read_bytes()))
            try:
                made = [ask("CreateValue", executor=executor, value=value).value_ref for value in sent]
                names = dict(zip(("function_ref", "argument_ref"), made))
                called = ask("CreateCall", executor=executor, **names).value_ref
                return f"answered with {ask('Compute', executor=executor, value_ref=called).ByteSize()} bytes"
            except grpc.RpcError as error:
                return error.details() or str(error.code())

        passes, found = 0, {}
        print("begun", flush=True)
        while not passes or not told_to_end(PAUSE):
            for file in sorted(pathlib.Path(folder).glob("*.computation")):
                found.setdefault(file.stem, set()).add(tries(file))
            passes += 1
    print(json.dumps({"passes": passes, "found": {name: sorted(said) for name, said in found.items()}}), flush=True)


class Answering(grpc.GenericRpcHandler):
    """Does nothing of what it is asked, and answers all the same: the first time as it should."""

    def __init__(self, first: bytes, later: bytes) -> None:
        self._answers, self._later = [first], later

    def service(self, handler_call_details):
        method = handler_call_details.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.answer(method))

    def answer(self, method: str) -> bytes:
        content = self._answers.pop() if self._answers and method == "Compute" else self._later
        if method == "Compute":
            value = executor_pb2.Value.FromString(content)
            return executor_pb2.ComputeResponse(value=value).SerializeToString()
        if method == "GetExecutor":
            return executor_pb2.GetExecutorResponse(executor={"id": "x"}).SerializeToString()
        if method in ("CreateValue", "CreateCall"):
            return executor_pb2.CreateValueResponse(value_ref={"id": "x"}).SerializeToString()
        return b"" if method.startswith("Dispose") else content


def site(certificates: str, name: str, first: str, later: str) -> None:
    files = [pathlib.Path(path).read_bytes() for path in shown(certificates, name).paths()]
    handler = Answering(*(pathlib.Path(file).read_bytes() for file in (first, later)))
    server = grpc.server(futures.ThreadPoolExecutor(4), [handler])
    credentials = grpc.ssl_server_credentials([(files[1], files[0])], files[2], require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    print(f"localhost:{port}", flush=True)
    sys.stdin.read()
    server.stop(0).wait()


def stranger(port: str) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(70):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(port))))
        print("begun", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    {"coordinator": coordinator, "site": site, "stranger": stranger}[sys.argv[1]](*sys.argv[2:])
