"""Between the door and TFF's worker: a service in the site's own process that speaks TFF's executor protocol.

    coordinator ──TLS──► TlsProxy ──Unix socket, one for each caller──► Relay ──Unix socket──► supervisor ──► worker

The relay forwards bytes. What may pass, and as what, is decided by guards, in the order in which they are given:

    class Guard:
        def request(self, call: Call) -> None     # before it is forwarded: raise Refused("one line"), or let it pass
        def answer(self, call: Call, content: bytes) -> bytes    # a serialised ComputeResponse, before it leaves:
                                                                 # return it, or another one, or raise Refused

Every method's request is seen, only Compute's answers are: the others hold nothing but references. For whoever writes a
guard (one that adds masks or noise, say):

- `call.caller` is the name on the certificate; `call.message` is the request, parsed when first asked for; a guard may
  change it (`call.replace_message`).
- `call.value` of a Compute is the value that is asked for: how it was `Made`. Its `parts` are, of a call, the function
  and the argument; `value.computation` is the SHA-256 of the computation that was sent, "" for what is none.
- `made.notes` is a dictionary that lives as long as the value does: what a guard finds out while a computation comes in
  (CreateValue: `call.made`) it finds again there when the answer leaves (`call.value.parts[0].notes`).
- `call.what` is a phrase for the site's log, which a guard may add to; `call.spent` says what of a privacy budget the
  answer costs, such as {"epsilon": 0.1}: it is written beside it.
- `own` adds methods that the site answers itself, such as "/tffapps.Site/Ask": (caller, bytes) -> bytes. They may raise
  Refused too. The coordinator calls them on the same channel: `channel.unary_unary("/tffapps.Site/Ask")`.

Everything that was asked is written down before its answer leaves, by the `Journal`, if there is one: passed, refused
or failed. Methods of the site's own are no guards' matter, but are written down too.

What a worker says of its own failures may hold data, so it goes into the site's log; the caller is told the kind alone.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import logging
import pathlib
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import grpc

from tffapps.engine.tff_messages import executor_pb2
from tffapps.wire import grpc_options

SERVICE = "/tensorflow_federated.v0.ExecutorGroup/"
CREATE_VALUE, CREATE_CALL, COMPUTE = "CreateValue", "CreateCall", "Compute"
_METHODS = (
    "GetExecutor", CREATE_VALUE, CREATE_CALL, "CreateStruct", "CreateSelection", COMPUTE, "Dispose", "DisposeExecutor",
)  # fmt: skip
_THREADS = 32  # a Compute keeps one of them for as long as it takes
_MOST_CALLERS = 16
_MOST_VALUES = 20_000  # of one caller at a time
_START_SECONDS = 40.0  # a new worker is waited for
_SERVER = [("grpc.so_reuseport", 0), ("grpc.http2.max_ping_strikes", 0)]  # callers ask whether it is there
_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]


class Refused(Exception):
    """What a guard does not let pass: one line for both ends, in which there may be the caller's own words."""

    def __init__(self, why: str) -> None:
        super().__init__("".join(letter if letter.isprintable() else "?" for letter in why))


@dataclasses.dataclass(eq=False)
class Made:
    """How a value at the worker came to be."""

    method: str
    computation: str = ""  # SHA-256 of the computation that was sent
    size: int = 0  # bytes that were sent for it
    parts: tuple[Made, ...] = ()
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Call:
    """One request of one caller."""

    caller: str
    method: str
    content: bytes
    value: Made | None = None  # of a Compute: what is asked for
    made: Made | None = None  # of a method that makes a value: that value
    what: str = ""
    came: int = -1  # how many bytes, if what is forwarded is something else
    spent: dict[str, float] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def message(self) -> Any:
        """The request; ValueError if it is none."""
        return getattr(executor_pb2, f"{self.method}Request").FromString(self.content)

    def replace_message(self) -> None:
        """Forwards `message` as a guard has changed it."""
        self.came = len(self.content)
        self.content = self.message.SerializeToString()


class Guard(Protocol):
    def request(self, call: Call) -> None: ...
    def answer(self, call: Call, content: bytes) -> bytes: ...


class Journal(Protocol):
    def write(self, call: Call, decision: str, answer: int) -> None:
        """`answer` is how many bytes leave. Raises Refused if it cannot be written: then nothing leaves."""


class Relay:
    """Forwards to the worker behind `worker`, a Unix socket. `folder` is for sockets of its own.

    `when_lost` is called when the worker is gone: what callers have made there is gone too.
    """

    def __init__(
        self,
        worker: pathlib.Path,
        folder: pathlib.Path,
        guards: Sequence[Guard] = (),
        *,
        own: Mapping[str, Callable[[str, bytes], bytes]] | None = None,
        journal: Journal | None = None,
        log: logging.Logger,
        when_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._guards, self._own, self._log = folder, guards, dict(own or {}), log
        self._when_lost, self._journal = when_lost, journal
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS)
        self._lock = threading.Lock()
        self._servers: dict[str, tuple[grpc.Server, pathlib.Path]] = {}
        self._values: dict[tuple[str, str, str], Made] = {}  # by caller, executor and reference
        self._channel = grpc.insecure_channel(f"unix:{worker}", options=[*grpc_options.OPTIONS, *_RECONNECT])
        self._methods = {name: self._channel.unary_unary(SERVICE + name) for name in _METHODS}
        self._was_there = False
        self._channel.subscribe(self._changed, try_to_connect=True)

    def entrance(self, caller: str) -> socket.socket:
        """A connection on which this caller's requests are answered."""
        with self._lock:
            if caller not in self._servers:
                if len(self._servers) >= _MOST_CALLERS:
                    raise OSError(f"{_MOST_CALLERS} others were here already")
                path = self._folder / f"{len(self._servers)}"
                server = grpc.server(self._threads, [_Handler(self, caller)], options=[*grpc_options.OPTIONS, *_SERVER])
                server.add_insecure_port(f"unix:{path}")
                server.start()
                self._servers[caller] = (server, path)
            path = self._servers[caller][1]
        inner = socket.socket(socket.AF_UNIX)
        try:
            inner.connect(str(path))
        except BaseException:
            inner.close()
            raise
        return inner

    def close(self) -> None:
        self._when_lost = lambda: None
        self._channel.unsubscribe(self._changed)
        for server, _ in self._servers.values():
            server.stop(None)
        # The channel is not closed: it ends with its last user. gRPC's own thread looks at it for a moment more, and
        # would leave a traceback.
        self._threads.shutdown(wait=False, cancel_futures=True)

    def answered(self, caller: str, name: str) -> Callable[[bytes, grpc.ServicerContext], bytes] | None:
        """What answers a method that is called by this full name; None if nothing does."""
        if name in self._own:
            return functools.partial(self._answer_own, caller, name)
        method = name.removeprefix(SERVICE)
        known = name.startswith(SERVICE) and method in _METHODS
        return functools.partial(self._answer, caller, method) if known else None

    def _answer_own(self, caller: str, name: str, content: bytes, context: grpc.ServicerContext) -> bytes:
        call = Call(caller, name.rpartition("/")[2], content)
        with self._refusing(call, context):
            return self._written(call, lambda: self._own[name](caller, content))

    def _answer(self, caller: str, method: str, content: bytes, context: grpc.ServicerContext) -> bytes:
        call = Call(caller, method, content)
        with self._refusing(call, context):
            return self._written(call, lambda: self._pass(call, context))

    def _pass(self, call: Call, context: grpc.ServicerContext) -> bytes:
        self._look_up(call, context)
        for guard in self._guards:
            guard.request(call)
        response = self._forward(call, context)
        if call.method == COMPUTE:
            for guard in self._guards:
                response = guard.answer(call, response)
        self._write_down(call, response)
        return response

    def _written(self, call: Call, answer: Callable[[], bytes]) -> bytes:
        """What is answered, and that it was."""
        response, decision = b"", "failed"
        try:
            response = answer()
            decision = "passed"
        except Refused as error:
            decision = f"refused: {error}"
            raise
        finally:
            if self._journal is not None:
                self._journal.write(call, decision, len(response))
        return response

    @contextlib.contextmanager
    def _refusing(self, call: Call, context: grpc.ServicerContext):
        try:
            yield
        except Refused as error:
            self._log.warning("refused %s of %s: %s", call.method, call.caller, error)
            context.abort(grpc.StatusCode.PERMISSION_DENIED, f"refused by the site: {error}")

    def _look_up(self, call: Call, context: grpc.ServicerContext) -> None:
        """What a request refers to must be the caller's own, and of the worker that is there now."""
        try:
            message, method = call.message, call.method
        except Exception:  # protobuf's own error, whose name differs between its implementations
            raise Refused("a request that cannot be read") from None
        if method == CREATE_VALUE:
            sent = message.value
            digest = hashlib.sha256(sent.computation.SerializeToString()).hexdigest() if _is_computation(sent) else ""
            call.made = Made(method, digest, len(call.content))
            return
        wanted = {
            CREATE_CALL: lambda: [message.function_ref, *([message.argument_ref] if message.argument_ref.id else [])],
            "CreateStruct": lambda: [element.value_ref for element in message.element],
            "CreateSelection": lambda: [message.source_ref],
            COMPUTE: lambda: [message.value_ref],
        }.get(method, list)()
        with self._lock:
            known = [self._values.get((call.caller, message.executor.id, one.id)) for one in wanted]
        found = tuple(made for made in known if made is not None)
        if len(found) < len(known):
            context.abort(grpc.StatusCode.UNAVAILABLE, "no such value here, or not any more")
        if method == COMPUTE:
            call.value = found[0]
        elif found:
            call.made = Made(method, parts=found)

    def _write_down(self, call: Call, response: bytes) -> None:
        if call.made is not None:
            reference = getattr(executor_pb2, f"{call.method}Response").FromString(response).value_ref.id
            with self._lock:
                if sum(caller == call.caller for caller, _, _ in self._values) >= _MOST_VALUES:
                    raise Refused(f"more than {_MOST_VALUES} values at a time")
                self._values[call.caller, call.message.executor.id, reference] = call.made
        elif call.method == "Dispose":
            with self._lock:
                for one in call.message.value_ref:
                    self._values.pop((call.caller, call.message.executor.id, one.id), None)
        elif call.method == "DisposeExecutor":
            with self._lock:
                for key in [key for key in self._values if key[:2] == (call.caller, call.message.executor.id)]:
                    del self._values[key]

    def _forward(self, call: Call, context: grpc.ServicerContext) -> bytes:
        first = call.method == "GetExecutor"
        pending = self._methods[call.method].future(
            call.content, wait_for_ready=first, timeout=_START_SECONDS if first else None
        )
        if not context.add_callback(pending.cancel):
            pending.cancel()
        try:
            return pending.result()
        except grpc.FutureCancelledError:
            context.abort(grpc.StatusCode.CANCELLED, "cancelled")
        except grpc.RpcError as error:
            code = error.code()  # type: ignore[attr-defined]
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                self._lose()
                context.abort(grpc.StatusCode.UNAVAILABLE, "the worker is gone")
            words = " ".join((error.details() or "").split())  # type: ignore[attr-defined]
            self._log.warning("%s of %s failed: %s: %.2000s", call.method, call.caller, code.name, words)
            context.abort(code, f"its worker failed ({code.name.lower()}); the site's log says more")
        raise AssertionError("abort does not return")

    def _changed(self, state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.READY:
            self._was_there = True
        elif self._was_there:
            self._was_there = False
            self._lose()

    def _lose(self) -> None:
        with self._lock:
            self._values.clear()
        self._when_lost()


class _Handler(grpc.GenericRpcHandler):
    """One caller's way to the relay; requests and answers stay bytes."""

    def __init__(self, relay: Relay, caller: str) -> None:
        self._relay, self._caller = relay, caller

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        answer = self._relay.answered(self._caller, handler_call_details.method)
        return None if answer is None else grpc.unary_unary_rpc_method_handler(answer)


def _is_computation(value: Any) -> bool:
    return value.WhichOneof("value") == "computation"
