"""Messages that gRPC itself would unpack: neither end does."""

import concurrent.futures
import contextlib

import grpc
import pytest

from tffapps.wire.grpc_options import OPTIONS

SWELLS = bytes(20_000_000)


class Handler(grpc.GenericRpcHandler):
    """Packs what it answers; says how much came."""

    def service(self, handler_call_details):
        return grpc.unary_unary_rpc_method_handler(self.answer)

    @staticmethod
    def answer(request, context):
        if request == b"pack":
            context.set_compression(grpc.Compression.Gzip)
            return SWELLS
        return str(len(request)).encode()


@contextlib.contextmanager
def calling(at_server, at_caller):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1), [Handler()], options=at_server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=at_caller) as channel:
        yield channel.unary_unary("/tffapps/Any")
    server.stop(None).wait()


def test_a_packed_message_stays_packed():
    anything = [("grpc.max_receive_message_length", -1)]
    with calling(anything, anything) as call:
        assert len(call(b"pack")) == len(SWELLS)  # so it would swell
    with calling(anything, OPTIONS) as call, pytest.raises(grpc.RpcError, match=r"'gzip' is disabled"):
        call(b"pack")
    with calling(OPTIONS, anything) as call, pytest.raises(grpc.RpcError, match=r"(?i)compression"):
        call(SWELLS, compression=grpc.Compression.Gzip)
