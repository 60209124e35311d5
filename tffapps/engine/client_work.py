"""The work of one client in one pass as one computation that can be sent away.

A plan's client steps become the body of a lambda without placements, which a worker evaluates as it is:

    (what is broadcast, the client's own arguments, what it kept in earlier passes)
        -> (what is aggregated, what is kept)

Whatever an aggregator has clients do (clip, quantise, mask) is in the body, so it is done before anything is sent;
unless the work is `raw`: then only what needs the client's own data is, and the rest is done where the answer comes to.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff
from tensorflow_federated import framework as _f

from tffapps.engine import lowering
from tffapps.engine.held import KEPT
from tffapps.engine.judging import Answer
from tffapps.engine.plan import Step, argument
from tffapps.engine.values import Struct

_PARAMETER = "sent_to_the_client"
_CALLS = (_f.FEDERATED_MAP.uri, _f.FEDERATED_EVAL_AT_CLIENTS.uri)


@dataclasses.dataclass(frozen=True)
class Input:
    """One argument of the computation, and where it comes from."""

    block: _f.ComputationBuildingBlock  # to be evaluated for the client
    type: tff.Type
    same_for_all: bool


class ClientWork:
    """`body` takes the `inputs` and returns, in a struct, one value for each output."""

    def __init__(self, steps: Sequence[Step], pass_number: int, raw: bool = False) -> None:
        """`steps` are those of the whole plan."""
        self._steps = {step.name: step for step in steps if step.at_clients}
        self._pass, self.is_raw = pass_number, raw
        self._locals: dict[str, _f.ComputationBuildingBlock] = {}
        self._inputs: dict[str, tuple[int, Input]] = {}
        self._outputs: dict[str, tuple[int, _f.ComputationBuildingBlock]] = {}
        todo = [step for step in steps if step.pass_number == pass_number]
        own = [step for step in todo if raw and step.name in self._steps and self._needs_the_client(step)]
        self.raw = {step.name: self._output(_reference(step)) for step in own}  # step -> its place in the answer
        self._folded = {step.name: self._output(argument(step.call, 0)) for step in todo if step.aggregates and not raw}
        self._kept = {step.name: self._output(_reference(step)) for step in todo if step.keep and not raw}
        self._names = [self._name(block) for _, block in self._outputs.values()]
        self.inputs = [each for _, each in self._inputs.values()]
        # Where what clients keep comes in and goes out, if both do: the input's number, and places of arrays.
        self.kept_input = next((place for place, each in enumerate(self.inputs) if _selected(each.block) == KEPT), None)
        result = _f.Struct([(None, block) for _, block in self._outputs.values()])
        self.type = tff.FunctionType(tff.StructType([(None, each.type) for each in self.inputs]), result.type_signature)
        # References to the parameter could not know its type before all inputs were known.
        parameter = _f.Reference(_PARAMETER, self.type.parameter)
        taken = [(_input_name(index), _f.Selection(parameter, index=index)) for index in range(len(self.inputs))]
        self.kept_arrays = self._arrays_called(KEPT) if self.kept_input is not None else None
        block = _f.Block([*taken, *self._locals.items()], result)
        self.body = _f.Lambda(_PARAMETER, self.type.parameter, block)

    @functools.cached_property
    def computation(self) -> Any:
        """The body for a worker."""
        return lowering.to_remote(self.body)

    def folded(self, name: str, answer: Any) -> Any:
        """Of an answer, what an aggregation folds."""
        return answer[self._folded[name]]

    def kept(self, name: str, answer: Any) -> Any:
        """Of an answer, what a step's value was."""
        return answer[self._kept[name]]

    def named(self, answer: Any) -> Answer:
        """The parts of an answer with their names, as far as they have one in the result of the client's work."""
        if not self.is_raw:
            return [(name, answer[index]) for index, name in enumerate(self._names)]
        parts: Answer = []
        for index in self.raw.values():
            result = answer[index]
            fields = tff.structure.to_elements(result) if isinstance(result, Struct) else [(None, result)]
            parts += [(name or "", value) for name, value in fields]
        return parts

    def raw_fields(self) -> list[tuple[str, int]]:
        """Of raw work: the fields of an answer, in order, and how many numbers each has."""
        if len(self.raw) != 1 or len(self._outputs) != 1:
            raise NotImplementedError("a sum over sites is of what one function makes of a client's data")
        (result,) = self.type.result
        return [
            (name or "", sum(math.prod(leaf.shape) for leaf in tff.structure.flatten(kind)))
            for name, kind in tff.structure.iter_elements(result)
        ]

    def _arrays_called(self, name: str) -> range | None:
        """Places of arrays in an answer that belong to its part of this name, if it has one."""
        place = 0
        for index, kind in enumerate(self.type.result):
            whole = [(self._names[index], kind)]
            for found, part in (
                tff.structure.to_elements(kind) if self.is_raw and isinstance(kind, tff.StructType) else whole
            ):
                count = len(tff.structure.flatten(part))
                if found == name and count:
                    return range(place, place + count)
                place += count
        return None

    def _needs_the_client(self, step: Step) -> bool:
        """Whether a step is of the client's own data, not of what earlier steps made of it."""
        uri = step.call.function.uri
        if step.same_for_all or uri not in _CALLS:
            return False
        return uri == _f.FEDERATED_EVAL_AT_CLIENTS.uri or self._has_own(argument(step.call, 1))

    def _has_own(self, block: _f.ComputationBuildingBlock) -> bool:
        if isinstance(block, _f.Struct):
            return any(map(self._has_own, block))
        step = self._steps.get(_root(block))
        if step is None:
            return True
        return step.call.function.uri == _f.FEDERATED_ZIP_AT_CLIENTS.uri and self._has_own(step.call.argument)

    def _name(self, block: _f.ComputationBuildingBlock) -> str:
        """Of an output that is one field of another step's result; "" of any other."""
        local = self._locals.get(block.name) if isinstance(block, _f.Reference) else None
        picks = local.function.result if isinstance(local, _f.Call) and isinstance(local.function, _f.Lambda) else None
        return _selected(picks)

    def _output(self, block: _f.ComputationBuildingBlock) -> int:
        # Several aggregations may be of the same value: it is sent once.
        key = block.compact_representation()
        if key not in self._outputs:
            self._outputs[key] = (len(self._outputs), self._unplaced(block))
        return self._outputs[key][0]

    def _unplaced(self, block: _f.ComputationBuildingBlock) -> _f.ComputationBuildingBlock:
        """A client-placed expression as this client sees it."""
        if isinstance(block, _f.Struct):
            return _f.Struct([(name, self._unplaced(part)) for name, part in tff.structure.iter_elements(block)])
        if not isinstance(block, (_f.Reference, _f.Selection)):
            raise NotImplementedError(f"sites cannot be sent {type(block).__name__} blocks that are placed at clients")
        root = _root(block)
        if root not in self._steps:
            return self._input(block, same_for_all=False)
        if isinstance(block, _f.Selection):
            return _f.Selection(self._unplaced(block.source), name=block.name, index=block.index)
        return self._step(self._steps[root])

    def _step(self, step: Step) -> _f.ComputationBuildingBlock:
        if step.same_for_all:
            return self._input(_reference(step), same_for_all=True)
        if step.pass_number < self._pass:  # it was kept then
            return self._input(_reference(step), same_for_all=False)
        if step.name not in self._locals:
            block = self._call(step)
            self._locals[step.name] = block  # after what it uses
        return _f.Reference(step.name, self._locals[step.name].type_signature)

    def _call(self, step: Step) -> _f.ComputationBuildingBlock:
        uri = step.call.function.uri
        if uri == _f.FEDERATED_ZIP_AT_CLIENTS.uri:
            return self._unplaced(step.call.argument)
        if uri not in _CALLS:
            raise NotImplementedError(f"sites do not know TFF's intrinsic {uri}")
        maps = uri == _f.FEDERATED_MAP.uri
        function = argument(step.call, 0) if maps else step.call.argument
        check_closed(function)
        return _f.Call(function, self._unplaced(argument(step.call, 1)) if maps else None)

    def _input(self, block: _f.ComputationBuildingBlock, same_for_all: bool) -> _f.ComputationBuildingBlock:
        kind = block.type_signature
        if isinstance(kind, tff.StructType):  # of several arguments, placed one by one
            names = [name for name, _ in tff.structure.iter_elements(kind)]
            parts = [self._input(_f.Selection(block, index=index), same_for_all) for index in range(len(names))]
            return _f.Struct(list(zip(names, parts)))
        if not isinstance(kind, tff.FederatedType):
            raise NotImplementedError(f"sites cannot be sent a value of type {kind} that is not placed")
        key = block.compact_representation()
        if key not in self._inputs:
            self._inputs[key] = (len(self._inputs), Input(block, kind.member, same_for_all))
        return _f.Reference(_input_name(self._inputs[key][0]), kind.member)


def _reference(step: Step) -> _f.Reference:
    return _f.Reference(step.name, step.call.type_signature)


def _selected(block: _f.ComputationBuildingBlock | None) -> str:
    """The name of the element that is picked of something; "" of what is no such pick."""
    if not isinstance(block, _f.Selection) or not isinstance(block.source, _f.Reference):
        return ""
    if block.name is not None:
        return block.name
    return tff.structure.to_elements(block.source.type_signature)[block.index][0] or ""


def _root(block: _f.ComputationBuildingBlock) -> str:
    while isinstance(block, _f.Selection):
        block = block.source
    if not isinstance(block, _f.Reference):
        raise NotImplementedError(f"sites cannot be sent a part of {type(block).__name__} blocks")
    return block.name


def _input_name(index: int) -> str:
    return f"{_PARAMETER}_{index}"


def check_closed(block: _f.ComputationBuildingBlock, bound: frozenset[str] = frozenset()) -> None:
    """Refuses a function that uses values from around it: they are not sent with it."""
    if isinstance(block, _f.Reference):
        if block.name not in bound:
            raise NotImplementedError(f"sites cannot be sent a function that uses {block.name} from around it")
    elif isinstance(block, _f.Lambda):
        check_closed(block.result, bound | {block.parameter_name} if block.parameter_name else bound)
    elif isinstance(block, _f.Block):
        for name, value in block.locals:
            check_closed(value, bound)
            bound = bound | {name}
        check_closed(block.result, bound)
    else:
        for child in block.children():
            check_closed(child, bound)
