"""All that is done for one client in one pass as one TensorFlow function, or as two.

A client's work, what an aggregator has it do, and every fold are functions of their own in a TFF computation: six calls
a client for a weighted mean, each with its tensors taken apart and put together in Python. For a small client that is
as long as its training. Traced as one they are one call (on one device, `OneCall`), or two where clients run side by
side (`WorkCall` on a client's device, `FoldCall` in the clients' order); values and their order are the same.

NotImplementedError if a pass has something that cannot be a part of one. `evaluate` gives the function that a block
without free names stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated import framework as _f

from tffapps.engine.client_work import ClientWork, check_closed
from tffapps.engine.plan import Plan, argument
from tffapps.engine.values import Struct, flatten, pack

Evaluate = Callable[[_f.ComputationBuildingBlock], Any]


class WorkCall:
    """What a client does in a pass; `inputs` say what to call it with."""

    def __init__(self, plan: Plan, number: int, evaluate: Evaluate) -> None:
        work = ClientWork(plan.steps, number)
        self.inputs = work.inputs
        kinds = [each.type for each in work.inputs]
        train = evaluate(work.body)

        def alone(*tensors: tf.Tensor) -> list[tf.Tensor]:
            given = iter(tensors)
            return list(flatten(train(Struct([(None, pack(kind, given)) for kind in kinds]))))

        self._call = _traced(alone, kinds)

    def __call__(self, inputs: Iterable[Iterable[tf.Tensor]]) -> list[tf.Tensor]:
        """The tensors of its answer, of those of each of `inputs`."""
        return self._call([tensor for part in inputs for tensor in part])


class FoldCall:
    """What becomes of a client's answer: new totals, and what is kept of it."""

    def __init__(self, plan: Plan, number: int, evaluate: Evaluate) -> None:
        self._work, self._folds = ClientWork(plan.steps, number), _Folds(plan, number, evaluate)
        self._answer = self._work.type.result
        kinds = [self._answer, *self._folds.totals.values()]

        def fold(*tensors: tf.Tensor) -> list[tf.Tensor]:
            given = iter(tensors)
            answer = pack(self._answer, given)
            return list(flatten(Struct([(None, total) for total in self._folds(self._work, answer, given)])))

        self._call = _traced(fold, kinds)

    def __call__(self, answer: Sequence[tf.Tensor], totals: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """As `OneCall`'s, of the tensors of an answer."""
        kept = {}
        if self._folds.kept:
            packed = pack(self._answer, iter(answer))
            kept = {name: self._work.kept(name, packed) for name in self._folds.kept}
        if not totals:
            return [], kept
        results = iter(self._call([*answer, *(tensor for total in totals for tensor in flatten(total))]))
        return [pack(kind, results) for kind in self._folds.totals.values()], kept


class OneCall:
    """Both at once; `inputs` say what to call it with."""

    def __init__(self, plan: Plan, number: int, evaluate: Evaluate) -> None:
        work, self._folds = ClientWork(plan.steps, number), _Folds(plan, number, evaluate)
        self.inputs = work.inputs
        train = evaluate(work.body)

        def everything(*tensors: tf.Tensor) -> list[tf.Tensor]:
            given = iter(tensors)
            answer = train(Struct([(None, pack(each.type, given)) for each in work.inputs]))
            folded = self._folds(work, answer, given)
            results = [*folded, *(work.kept(name, answer) for name in self._folds.kept)]
            return list(flatten(Struct([(None, value) for value in results])))

        self._call = _traced(everything, [*(each.type for each in work.inputs), *self._folds.totals.values()])

    def __call__(
        self, inputs: Iterable[Iterable[tf.Tensor]], totals: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The new totals, in the order of the pass's aggregations, and by step what is kept.

        Args:
          inputs: the tensors of each of `inputs`.
          totals: as they are before this client.
        """
        tensors = [tensor for part in inputs for tensor in part]
        for total in totals:
            tensors.extend(flatten(total))
        results = iter(self._call(tensors))
        folded = [pack(kind, results) for kind in self._folds.totals.values()]
        return folded, {name: pack(kind, results) for name, kind in self._folds.kept.items()}


class _Folds:
    """The aggregations of a pass: `totals` are the types of what they add up, `kept` those of what is kept, by step."""

    def __init__(self, plan: Plan, number: int, evaluate: Evaluate) -> None:
        todo = [step for step in plan.steps if step.pass_number == number]
        accumulates = {step.name: argument(step.call, 2) for step in todo if step.aggregates}
        for block in accumulates.values():
            check_closed(block)
        self.kept = {step.name: step.call.type_signature.member for step in todo if step.keep}
        self.totals = {name: block.type_signature.parameter[0] for name, block in accumulates.items()}
        self._folds = {name: evaluate(block) for name, block in accumulates.items()}

    def __call__(self, work: ClientWork, answer: Any, tensors: Iterator[tf.Tensor]) -> list[Any]:
        """The totals with an answer in them, of the tensors of the totals without it."""
        totals = {name: pack(kind, tensors) for name, kind in self.totals.items()}
        return [
            fold(Struct([(None, totals[name]), (None, work.folded(name, answer))]))
            for name, fold in self._folds.items()
        ]


def _traced(function: Callable[..., list[tf.Tensor]], kinds: Iterable[tff.Type]) -> Callable[..., list[tf.Tensor]]:
    """Of a function of the tensors of values of these types: the same of a list of them, traced."""
    specs = [spec for kind in kinds for spec in _specs(kind)]
    with tf.device(None):  # it may be called on any
        traced = tf.function(function, autograph=False).get_concrete_function(*specs)
    # As in `GraphFunction`: the public call describes every tensor first.
    return lambda tensors: traced._call_flat(tensors, traced.captured_inputs)


def _specs(kind: tff.Type) -> Iterator[tf.TensorSpec]:
    """Of the tensors of a value of this type, in the order of `flatten`."""
    if isinstance(kind, tff.StructType):
        for _, part in tff.structure.iter_elements(kind):
            yield from _specs(part)
    elif isinstance(kind, tff.SequenceType):
        yield tf.TensorSpec([], tf.variant)
    else:
        yield tf.TensorSpec(kind.shape, tf.as_dtype(kind.dtype.type))
