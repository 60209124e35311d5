"""TFF computations evaluated by TFF's own C++ worker, started, watched and ended by us."""

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import tensorflow_federated as tff

from tffapps.engine import lowering
from tffapps.engine.context import EngineContext
from tffapps.engine.values import materialised
from tffapps.engine.worker_process import WorkerProcess
from tffapps.wire import grpc_options

_SECONDS_BETWEEN_LOOKS = 0.2


class _WorkerDied(RuntimeError):
    pass


class WorkerContext(EngineContext):
    """Forwards to a worker; one that died is replaced, and the computation, which keeps no state, begins again."""

    def __init__(self, start_timeout: float = 30.0) -> None:
        self._start_timeout = start_timeout
        self._compiled: dict[int, tuple[tff.Computation, tff.Computation]] = {}
        self.restarts = 0
        self._start()

    def _start(self) -> None:
        self.process = WorkerProcess(self._start_timeout)
        self._channel = grpc.insecure_channel(self.process.address, options=grpc_options.OPTIONS)
        self._context = remote_context(self._channel, self._compile)

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        if not self.process.is_alive():
            self._restart()
        arg = materialised(arg)
        try:
            return self._watched(comp, arg)
        except _WorkerDied:
            self._restart()
            return self._watched(comp, arg)

    def _watched(self, comp: tff.Computation, arg: Any) -> Any:
        """The result, or `_WorkerDied`: left alone, TFF would ask a dead worker again and again, for ever."""
        answer: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def ask() -> None:
            try:
                answer.set_result(self._context.invoke(comp, arg))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        while True:
            done, _ = concurrent.futures.wait([answer], timeout=_SECONDS_BETWEEN_LOOKS)
            if done and answer.exception() is not None:
                time.sleep(_SECONDS_BETWEEN_LOOKS)  # a worker's connections end before it does
            if not self.process.is_alive():
                raise _WorkerDied(self.process.last_words())
            if done:
                return answer.result()

    def _compile(self, comp: tff.Computation) -> tff.Computation:
        # Kept here and not in TFF's context, so that it outlives a worker; the key's object is kept alive beside it.
        if id(comp) not in self._compiled:
            self._compiled[id(comp)] = (comp, lowering.to_native(comp))
        return self._compiled[id(comp)][1]

    def _restart(self) -> None:
        self.close()
        self.restarts += 1
        self._start()

    def peak_memory(self) -> int:
        return self.process.peak_memory()

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the other end may be gone already
            self._channel.close()
        self.process.stop()


def remote_context(
    connection: grpc.Channel, compiler: Callable[[tff.Computation], tff.Computation]
) -> tff.framework.SyncExecutionContext:
    """A context that runs computations on the worker at the other end of a channel."""
    stub = tff.framework.RemoteExecutorGrpcStub(connection)

    def executor_for(cardinalities: Mapping[Any, int]) -> tff.framework.RemoteExecutor:
        executor = tff.framework.RemoteExecutor(stub)
        executor.set_cardinalities({tff.CLIENTS: 0, **cardinalities})
        return executor

    return tff.framework.SyncExecutionContext(
        tff.framework.ResourceManagingExecutorFactory(executor_for),
        compiler,
        transform_args=tff.tensorflow.transform_args,
        transform_result=tff.tensorflow.transform_result,
    )
