"""TFF computations evaluated in this process, on whatever devices TensorFlow has.

TFF's own runtime is a separate C++ program without GPU support. This context needs nothing but TensorFlow: it lowers
a computation to a dozen intrinsics (`lowering`), plans passes over the clients (`plan`) and walks them. Clients run
in sequence, or side by side on several devices (`devices`), and every result is folded into its aggregates in its
turn, so memory does not grow with their number.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated import framework as _f

from tffapps.engine import lowering
from tffapps.engine.client_work import Input
from tffapps.engine.context import EngineContext
from tffapps.engine.devices import Pool
from tffapps.engine.folding import ClientValues, Fold
from tffapps.engine.graph_function import GraphFunction
from tffapps.engine.one_call import FoldCall, OneCall, WorkCall
from tffapps.engine.plan import Plan, Step, argument
from tffapps.engine.values import AtClients, Spill, Struct, any_deferred, egest, flatten, ingest, pack

T = TypeVar("T")


class ClientError(RuntimeError):
    """The work of one client failed; `client` is its position in the arguments. If several did, `reasons` has all."""

    def __init__(self, client: int, cause: BaseException, reasons: dict[int, str] | None = None) -> None:
        super().__init__(f"client {client}: {type(cause).__name__}: {cause}")
        self.client = client
        self.reasons = reasons or {client: str(cause)}


class InProcessContext(EngineContext):
    """A TFF execution context; install it with `tff.framework.set_default_context` or `engine.open_engine`.

    Args:
      default_num_clients: how many clients there are for a computation whose arguments do not tell, as in TFF.
      devices: TensorFlow's names of several, on which clients run side by side (`devices.set_up`); none: on one.
    """

    def __init__(self, default_num_clients: int = 0, devices: Sequence[str] = ()) -> None:
        self._default_num_clients = default_num_clients
        self._pool = Pool(devices) if devices else None
        self._plans: dict[int, tuple[tff.Computation, Plan]] = {}
        # By the device's number too: each has graphs, and so variables, of its own.
        self._graphs: dict[tuple[int | None, bytes], GraphFunction] = {}
        self._functions: dict[tuple[int | None, int], tuple[_f.CompiledComputation, GraphFunction]] = {}
        self._calls: dict[tuple[Any, ...], tuple[Plan, Any]] = {}

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        plan = self._plan(comp)
        counts: set[int] = set()
        parameter = comp.type_signature.parameter
        value = None if parameter is None else ingest(arg, parameter, counts)
        if len(counts) > 1:
            raise ValueError(f"Conflicting cardinalities for CLIENTS: arguments of the lengths {sorted(counts)}")
        spill = Spill() if any_deferred(arg) else None
        result = self._run(plan, value, counts.pop() if counts else self._default_num_clients, spill).result()
        if callable(result):  # a bare TensorFlow computation: nothing federated around it
            result = result() if parameter is None else result(value)
        return egest(result, comp.type_signature.result)

    def _run(self, plan: Plan, parameter: Any, clients: int, spill: Spill | None) -> Run:
        return Run(self, plan, parameter, clients, spill)

    def _plan(self, comp: tff.Computation) -> Plan:
        # Keyed by identity: the computation is kept alive beside its plan, so the key cannot be reused.
        if id(comp) not in self._plans:
            self._plans[id(comp)] = (comp, Plan(lowering.to_call_dominant(comp)))
        return self._plans[id(comp)][1]

    def one_call(self, plan: Plan, number: int, run: Run) -> OneCall | None:
        """A client's part of a pass; None if it cannot be one function. Traced once, with the help of any run."""
        return self._traced(OneCall, plan, number, run)

    def work_call(self, plan: Plan, number: int, run: Run) -> WorkCall | None:
        """The same without its folds, on the device that the calling thread works for."""
        return self._traced(WorkCall, plan, number, run)

    def fold_call(self, plan: Plan, number: int, run: Run) -> FoldCall | None:
        """The folds of a pass."""
        return self._traced(FoldCall, plan, number, run)

    def _traced(self, kind: type[T], plan: Plan, number: int, run: Run) -> T | None:
        key = (kind, self.place, id(plan), number)
        if key not in self._calls:
            try:
                self._calls[key] = plan, kind(plan, number, run.function)  # type: ignore[call-arg]
            except NotImplementedError:
                self._calls[key] = plan, None
        return self._calls[key][1]

    @property
    def place(self) -> int | None:
        """The number of the device that the calling thread works for, of several."""
        return self._pool.place if self._pool else None

    def graph_function(self, block: _f.CompiledComputation) -> GraphFunction:
        place = self.place
        key = (place, id(block))
        if key not in self._functions:
            content = (place, block.proto.SerializeToString(deterministic=True))
            if content not in self._graphs:
                self._graphs[content] = GraphFunction(block.proto)
            self._functions[key] = (block, self._graphs[content])
        return self._functions[key][1]

    @property
    def several(self) -> bool:
        """Whether clients run side by side, on several devices."""
        return self._pool is not None

    @functools.cached_property
    def ahead(self) -> concurrent.futures.Executor:
        """Where the next client's arguments are made (its files read, say) while a client trains, on one device."""
        return concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="next-client")

    def in_order(self, work: Callable[[int], Any], clients: int) -> Generator[Any, None, None]:
        """What the work of each client comes to, in their order, on several devices."""
        pool = self._pool
        assert pool is not None
        return pool.in_order(lambda client: pool.at_home(work(client)), clients)

    def here(self, value: Any) -> Any:
        """A value on the device that the calling thread works for."""
        return value if self._pool is None or self.place is None else self._pool.at(self.place, value)

    def close(self) -> None:
        self.ahead.shutdown()
        if self._pool is not None:
            self._pool.close()


class Run:
    """One invocation of one computation."""

    def __init__(
        self, context: InProcessContext, plan: Plan, parameter: Any, clients: int, spill: Spill | None
    ) -> None:
        self._context = context
        self._spill = spill  # where what is kept of each client goes, if it is not to be held
        self._plan = plan
        self._clients = clients
        self._client_steps = {step.name: step for step in plan.steps if step.at_clients}
        self._known: dict[str, Any] = {}  # what is not client work: the parameter, server values
        if plan.parameter_name:
            self._known[plan.parameter_name] = parameter
        self._kept: dict[str, list[Any]] = {step.name: [] for step in plan.steps if step.keep}
        self._same_for_all: dict[str, Any] = {}
        self._working_out = threading.RLock()  # what is the same for all is worked out once, whoever asks first
        self._given_to_all: dict[tuple[int | None, int, int], Any] = {}

    def result(self) -> Any:
        for number in range(self._plan.passes):
            todo = [step for step in self._plan.steps if step.pass_number == number]
            for step in todo:
                if not step.at_clients and not step.aggregates:
                    self._known[step.name] = self._server_call(step.call)
            self._pass_over_clients(number, todo)
        for name, values in self._kept.items():
            self._known[name] = AtClients(values, member=self._client_steps[name].call.type_signature.member)
        return self.server_value(self._plan.result)

    def _pass_over_clients(self, number: int, todo: list[Step]) -> None:
        folds = [Fold(self, step) for step in todo if step.aggregates]
        kept = [step.name for step in todo if step.keep]
        if not folds and not kept:
            return
        self._fold_clients(number, folds, kept)
        for fold in folds:
            self._known[fold.name] = fold.report()

    def _fold_clients(self, number: int, folds: list[Fold], kept: list[str]) -> None:
        """Does the work of every client in a pass; results are folded one after the other."""
        if self._context.several:
            return self._fold_side_by_side(number, folds, kept)
        made: concurrent.futures.Future[Any] | None = None
        for client in range(self._clients):
            try:
                made = self._fold_client(number, client, folds, kept, made, ahead=client + 1 < self._clients)
            except Exception as error:
                raise ClientError(client, error) from error

    def _fold_side_by_side(self, number: int, folds: list[Fold], kept: list[str]) -> None:
        call = self._context.fold_call(self._plan, number, self)
        work = functools.partial(self._work, folds, kept) if call is None else functools.partial(self._answer, number)
        done = self._context.in_order(work, self._clients)
        with contextlib.closing(done):
            for client in range(self._clients):
                try:
                    if call is None:
                        self._fold(next(done), folds, kept)
                    else:
                        self._folded(folds, *call(next(done), [fold.total for fold in folds]))
                except Exception as error:
                    raise ClientError(client, error) from error

    def _fold(self, parts: Struct, folds: list[Fold], kept: list[str]) -> None:
        values = iter(parts)
        for fold in folds:
            fold.add(next(values))
        for name in kept:
            self._keep(name, next(values))

    def _folded(self, folds: list[Fold], totals: list[Any], of_client: Mapping[str, Any]) -> None:
        for fold, total in zip(folds, totals):
            fold.total = total
        for name, value in of_client.items():
            self._keep(name, value)

    def _work(self, folds: list[Fold], kept: list[str], client: int) -> Struct:
        """What one client has for each fold, then what is kept of it."""
        values = ClientValues(self, client)
        parts = [*(values.evaluate(fold.value) for fold in folds), *(values[name] for name in kept)]
        return Struct([(None, part) for part in parts])

    def _answer(self, number: int, client: int) -> list[tf.Tensor]:
        """The same as the tensors of one call's answer."""
        call = self._context.work_call(self._plan, number, self)
        assert call is not None  # there is a `fold_call`
        given = self._all_given(number, call.inputs, client)
        return call([list(flatten(value)) for value in given])

    def _fold_client(
        self,
        number: int,
        client: int,
        folds: list[Fold],
        kept: list[str],
        made: concurrent.futures.Future[Any] | None = None,
        *,
        ahead: bool = False,
    ) -> concurrent.futures.Future[Any] | None:
        """`made` are the client's arguments, if that has been begun; `ahead` begins and returns the next client's."""
        call = self._context.one_call(self._plan, number, self)
        if call is None:
            values = ClientValues(self, client)
            for fold in folds:
                fold.add(values.evaluate(fold.value))
            for name in kept:
                self._keep(name, values[name])
            return None
        # Alive until the call is done: functions of a pipeline go with the object that made them, not with its tensor.
        given = self._all_given(number, call.inputs, client) if made is None else made.result()
        following = None
        if ahead:
            following = self._context.ahead.submit(self._all_given, number, call.inputs, client + 1)
        try:
            self._folded(folds, *call([list(flatten(value)) for value in given], [fold.total for fold in folds]))
        except BaseException:
            if following is not None:  # nothing is left running
                following.cancel()
                concurrent.futures.wait([following])
            raise
        return following

    def _all_given(self, number: int, inputs: Sequence[Input], client: int) -> list[Any]:
        """What a client's call is called with."""
        values = ClientValues(self, client)
        return [self._given(number, place, each, values) for place, each in enumerate(inputs)]

    def _given(self, number: int, place: int, each: Input, values: ClientValues) -> Any:
        """One of a call's inputs; those that are the same for all are made once."""
        if not each.same_for_all:
            return values.evaluate(each.block)
        key = (self._context.place, number, place)  # each device has them once
        if key not in self._given_to_all:
            self._given_to_all[key] = self._context.here(values.evaluate(each.block))
        return self._given_to_all[key]

    def _keep(self, name: str, value: Any) -> None:
        if self._spill is not None:
            value = self._spill.put(egest(value, self._client_steps[name].call.type_signature.member))
        self._kept[name].append(value)

    def _server_call(self, call: _f.Call) -> Any:
        if not isinstance(call.function, _f.Intrinsic):
            return self.server_value(call)
        uri = call.function.uri
        if uri == _f.FEDERATED_APPLY.uri:
            return self.server_value(argument(call, 0))(self.server_value(argument(call, 1)))
        if uri == _f.FEDERATED_EVAL_AT_SERVER.uri:
            return self.server_value(call.argument)()
        if uri in (_f.FEDERATED_ZIP_AT_SERVER.uri, _f.FEDERATED_VALUE_AT_SERVER.uri):
            return self.server_value(call.argument)
        raise NotImplementedError(f"the in-process engine does not know TFF's intrinsic {uri}")

    def client_call(self, step: Step, values: ClientValues) -> Any:
        """The value of one client's step."""
        call = step.call
        uri = call.function.uri
        if uri == _f.FEDERATED_MAP.uri:
            return self.server_value(argument(call, 0))(values.evaluate(argument(call, 1)))
        if uri == _f.FEDERATED_ZIP_AT_CLIENTS.uri:
            return values.evaluate(call.argument)
        if uri in (_f.FEDERATED_BROADCAST.uri, _f.FEDERATED_VALUE_AT_CLIENTS.uri):
            return self.server_value(call.argument)
        if uri == _f.FEDERATED_EVAL_AT_CLIENTS.uri:
            return self.server_value(call.argument)()
        if uri == _f.FEDERATED_MAP_ALL_EQUAL.uri:
            with self._working_out:
                if step.name not in self._same_for_all:
                    function = self.server_value(argument(call, 0))
                    self._same_for_all[step.name] = function(values.evaluate(argument(call, 1)))
                return self._same_for_all[step.name]
        raise NotImplementedError(f"the in-process engine does not know TFF's intrinsic {uri}")

    def function(self, block: _f.ComputationBuildingBlock) -> Callable[[Any], Any]:
        """What a block stands for in which no name is free."""
        nothing: dict[str, Any] = {}
        return self._evaluate(block, _Scope(nothing.__getitem__))

    def server_value(self, block: _f.ComputationBuildingBlock) -> Any:
        return self._evaluate(block, _Scope(self._at_server))

    def _at_server(self, name: str) -> Any:
        step = self._client_steps.get(name)
        if step is not None and step.same_for_all:  # a caller asks for it; there may be no client
            return AtClients([ClientValues(self, 0)[name]], all_equal=True)
        return self._known[name]

    def client_value(self, block: _f.ComputationBuildingBlock, values: ClientValues) -> Any:
        def look_up(name: str) -> Any:
            return values[name] if name in self._client_steps else self._known[name]

        return self._evaluate(block, _Scope(look_up, values.client))

    def kept_value(self, name: str, client: int) -> tuple[bool, Any]:
        """Whether an earlier pass kept this client's value, and the value."""
        values = self._kept.get(name, [])
        if client >= len(values):
            return False, None
        return True, AtClients(values, member=self._client_steps[name].call.type_signature.member).of(client)

    def client_step(self, name: str) -> Step:
        return self._client_steps[name]

    def _evaluate(self, block: _f.ComputationBuildingBlock, scope: _Scope) -> Any:
        if isinstance(block, _f.Reference):
            return scope.seen(scope.look_up(block.name))
        if isinstance(block, _f.Selection):
            source = self._evaluate(block.source, scope)
            return scope.seen(source[block.index] if block.index is not None else getattr(source, block.name))
        if isinstance(block, _f.Struct):
            elements = tff.structure.iter_elements(block)
            return Struct([(name, self._evaluate(element, scope)) for name, element in elements])
        if isinstance(block, _f.CompiledComputation):
            return self._tensorflow(block)
        if isinstance(block, _f.Call):
            function = self._evaluate(block.function, scope)
            return function() if block.argument is None else function(self._evaluate(block.argument, scope))
        if isinstance(block, _f.Lambda):
            return lambda value=None: self._evaluate(block.result, scope.with_name(block.parameter_name, value))
        if isinstance(block, _f.Block):
            for name, value in block.locals:
                scope = scope.with_name(name, self._evaluate(value, scope))
            return self._evaluate(block.result, scope)
        if isinstance(block, _f.Literal):
            return tf.constant(block.value)
        raise NotImplementedError(f"the in-process engine does not know {type(block).__name__} blocks")

    def _tensorflow(self, block: _f.CompiledComputation) -> Callable[..., Any]:
        function = self._context.graph_function(block)
        result_type = block.type_signature.result

        def call(value: Any = None) -> Any:
            tensors = [] if value is None else list(flatten(value))
            return pack(result_type, iter(function(tensors)))

        return call


@dataclasses.dataclass(frozen=True)
class _Scope:
    """What names mean, and for which client (None: at the server)."""

    look_up: Callable[[str], Any]
    client: int | None = None

    def with_name(self, name: str | None, value: Any) -> _Scope:
        return _Scope(lambda wanted: value if wanted == name else self.look_up(wanted), self.client)

    def seen(self, value: Any) -> Any:
        """A client-placed argument as this client sees it."""
        return value.of(self.client) if self.client is not None and isinstance(value, AtClients) else value
