"""The order in which the in-process engine does the work of one federated computation.

A computation in call-dominant form is a list of named calls. Each is either *server* work (done once) or *client*
work (done for every client). An aggregation turns client values into a server value. The calls are sorted into
passes over the clients, so that in one pass each client's work is done, folded into every aggregate of that pass,
and forgotten:

    pass 0:  server work → for each client: its work → fold      (broadcast, local training, sum)
    pass 1:  server work on the aggregates → for each client: …  (only when something is broadcast again)

A client value that a later pass needs is kept; everything else is dropped when the next client begins.
"""

import dataclasses
from collections.abc import Iterator

import tensorflow_federated as tff
from tensorflow_federated import framework as _f

RESULT_PASS = 1 << 30  # what the caller gets back is "used" after every pass


@dataclasses.dataclass
class Step:
    """One named call of the computation."""

    name: str
    call: _f.ComputationBuildingBlock
    at_clients: bool  # its value lives at the clients
    same_for_all: bool  # and is one value for all of them
    aggregates: bool  # it turns client values into a server value
    uses: set[str]
    pass_number: int = 0  # client work and aggregation: the pass it is done in; server work: before that pass
    keep: bool = False  # client work whose values a later pass needs, or the caller


class Plan:
    def __init__(self, lowered: _f.ComputationBuildingBlock) -> None:
        self.parameter_name = lowered.parameter_name if isinstance(lowered, _f.Lambda) else None
        body = lowered.result if isinstance(lowered, _f.Lambda) else lowered
        self.result = body.result if isinstance(body, _f.Block) else body
        self.steps: list[Step] = []
        by_name: dict[str, Step] = {}
        for name, call in body.locals if isinstance(body, _f.Block) else []:
            step = _step(name, call, by_name)
            self.steps.append(step)
            by_name[name] = step
        self._mark_kept(by_name)
        self.passes = 1 + max((step.pass_number for step in self.steps), default=0)

    def _mark_kept(self, by_name: dict[str, Step]) -> None:
        users = [(step.pass_number, step.uses) for step in self.steps]
        users.append((RESULT_PASS, set(_references(self.result))))
        for pass_number, uses in users:
            for name in uses & by_name.keys():
                used = by_name[name]
                used.keep |= used.at_clients and not used.same_for_all and pass_number > used.pass_number


def argument(call: _f.Call, index: int) -> _f.ComputationBuildingBlock:
    """One of the arguments of a call to an intrinsic."""
    if isinstance(call.argument, _f.Struct):
        return call.argument[index]
    return _f.Selection(call.argument, index=index)


def _step(name: str, call: _f.ComputationBuildingBlock, earlier: dict[str, Step]) -> Step:
    kind = call.type_signature
    at_clients = isinstance(kind, tff.FederatedType) and kind.placement is tff.CLIENTS
    uses = set(_references(call))
    uri = call.function.uri if isinstance(call, _f.Call) and isinstance(call.function, _f.Intrinsic) else None
    aggregates = uri == _f.FEDERATED_AGGREGATE.uri
    ready = 0
    for used in (earlier[use] for use in uses & earlier.keys()):
        ready = max(ready, used.pass_number + (1 if used.aggregates else 0))
    same_for_all = at_clients and kind.all_equal
    return Step(name, call, at_clients, same_for_all, aggregates, uses, pass_number=ready)


def _references(block: _f.ComputationBuildingBlock) -> Iterator[str]:
    """Names a block refers to. Names are unique in call-dominant form, so bound ones do no harm."""
    if isinstance(block, _f.Reference):
        yield block.name
    else:
        for child in block.children():
            yield from _references(child)
