"""TFF's worker as a service: computations without placements, evaluated at the other end of a channel.

A computation is sent once and stays there, so that a call costs its arguments and its result and nothing else. TFF's
own client sends it with every call, and asks a worker that died again and again, for ever.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tffapps.engine import answers, held
from tffapps.engine.tff_internals import computation_pb2, executor_pb2, executor_pb2_grpc
from tffapps.engine.values import Struct, ingest
from tffapps.wire import states

_SECONDS_BETWEEN_LOOKS = 0.5
_GOODBYE_SECONDS = 2.0
_MOST_LETTERS = 500
_COMPUTE = "/tensorflow_federated.v0.ExecutorGroup/Compute"
_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAUTHENTICATED)


class WorkerLost(ConnectionError):
    """The worker, or the way to it, is gone."""


class WorkFailed(RuntimeError):
    """The worker could not evaluate what it was asked."""


class Denied(WorkFailed):
    """The other end does not allow it."""


class RemoteWorker:
    """For one thread at a time. `is_there` says whether it is worth waiting for an answer, however long it takes."""

    def __init__(self, channel: grpc.Channel, is_there: Callable[[], bool]) -> None:
        self._is_there, self._channel = is_there, channel
        self._stub = executor_pb2_grpc.ExecutorGroupStub(channel)
        # Its answer stays bytes until `answers.read` has seen how many they are.
        self._compute = channel.unary_unary(_COMPUTE, executor_pb2.ComputeRequest.SerializeToString)
        self._functions: dict[int, tuple[Any, executor_pb2.ValueRef]] = {}
        self.bytes_sent = self.bytes_received = 0
        clients = executor_pb2.Cardinality(placement=computation_pb2.Placement(uri=tff.CLIENTS.uri), cardinality=0)
        request = executor_pb2.GetExecutorRequest(cardinalities=[clients])
        self._executor = self._ask(self._stub.GetExecutor, request).executor

    def evaluate(
        self,
        computation: computation_pb2.Computation,
        argument: executor_pb2.Value | None,
        result_type: tff.Type,
        most_bytes: float = math.inf,
    ) -> Any:
        """The result as an engine's value; BadAnswer if it is none of its type, or larger than `most_bytes`.

        The same computation is to be given as the same object.
        """
        made = []
        try:
            if argument is not None:
                made.append(self._create(argument))
            function = self._function(computation)
            call = executor_pb2.CreateCallRequest(
                executor=self._executor, function_ref=function, argument_ref=made[0] if made else None
            )
            made.append(self._ask(self._stub.CreateCall, call).value_ref)
            wanted = executor_pb2.ComputeRequest(executor=self._executor, value_ref=made[-1])
            answer = self._ask(self._compute, wanted)
        except WorkerLost:
            made = []
            raise
        finally:
            if made:
                self._ask(self._stub.Dispose, executor_pb2.DisposeRequest(executor=self._executor, value_ref=made))
        return ingest(answers.read(answer, result_type, most_bytes), result_type, set())

    def call(self, method: str, content: bytes) -> bytes:
        """What the other end answers to a method of its own, which is not TFF's."""
        return self._ask(self._channel.unary_unary(method), content)

    def leave(self) -> None:
        """Lets the worker forget everything; not worth more than a moment."""
        request = executor_pb2.DisposeExecutorRequest(executor=self._executor)
        with contextlib.suppress(grpc.RpcError, ValueError):  # it is gone, or the channel is closed
            self._stub.DisposeExecutor(request, timeout=_GOODBYE_SECONDS)

    def _function(self, computation: computation_pb2.Computation) -> executor_pb2.ValueRef:
        # Keyed by identity: the computation is kept alive beside its reference, so the key cannot be reused.
        if id(computation) not in self._functions:
            reference = self._create(computation_value(computation))
            self._functions[id(computation)] = (computation, reference)
        return self._functions[id(computation)][1]

    def _create(self, value: executor_pb2.Value) -> executor_pb2.ValueRef:
        request = executor_pb2.CreateValueRequest(executor=self._executor, value=value)
        return self._ask(self._stub.CreateValue, request).value_ref

    def _ask(self, method: grpc.UnaryUnaryMultiCallable, request: Any) -> Any:
        self.bytes_sent += _size(request)
        try:
            pending = method.future(request)
        except ValueError as error:  # the channel is closed
            raise WorkerLost("the connection is closed") from error
        while True:
            try:
                response = pending.result(timeout=_SECONDS_BETWEEN_LOOKS)
                self.bytes_received += _size(response)
                return response
            except grpc.FutureTimeoutError:
                if not self._is_there():
                    pending.cancel()
                    raise WorkerLost("the connection was lost") from None
            except grpc.FutureCancelledError:
                raise WorkerLost("the connection was lost") from None
            except grpc.RpcError as error:
                if error.code() in _GONE:
                    raise WorkerLost("the connection was lost") from None
                denied = error.code() is grpc.StatusCode.PERMISSION_DENIED
                raise (Denied if denied else WorkFailed)(one_line(error.details() or str(error.code()))) from None


def one_line(words: str) -> str:
    """What the other end says, fit to be shown: it may be long, or meant for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in words[:_MOST_LETTERS])


def _size(message: Any) -> int:
    return len(message) if isinstance(message, bytes) else message.ByteSize()


def computation_value(computation: computation_pb2.Computation) -> executor_pb2.Value:
    """As it is sent."""
    return executor_pb2.Value(computation=computation)


def serialized(value: Any, value_type: tff.Type, site: str = "") -> executor_pb2.Value:
    """An engine's value as it is sent, to this site: for what the site has itself, the word for it."""
    if isinstance(value, held.Held):
        return _text(value.at(site))
    if held.any_held(value):
        kinds = [kind for _, kind in tff.structure.iter_elements(value_type)]
        return struct([serialized(part, kind, site) for part, kind in zip(value, kinds)])
    return tff.framework.serialize_value(_plain(value), value_type)[0]


def struct(elements: list[executor_pb2.Value], order: states.Order | None = None) -> executor_pb2.Value:
    """Values that were serialised one by one, as one of a type without names; and what a site is to hold."""
    parts = [executor_pb2.Value.Struct.Element(value=element) for element in elements]
    if order is not None:
        parts.append(executor_pb2.Value.Struct.Element(name=states.ORDER, value=_text(order.to_bytes().decode())))
    return executor_pb2.Value(struct=executor_pb2.Value.Struct(element=parts))


def arrays_in(value: executor_pb2.Value) -> int:
    """How many arrays are in what is sent."""
    if value.WhichOneof("value") == "struct":
        return sum(arrays_in(element.value) for element in value.struct.element)
    return int(value.WhichOneof("value") == "array")


def _text(text: str) -> executor_pb2.Value:
    return tff.framework.serialize_value(text, tff.TensorType(np.str_))[0]


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return Struct([(name, _plain(one)) for name, one in tff.structure.iter_elements(value)])
    return value.numpy() if isinstance(value, tf.Tensor) else value
