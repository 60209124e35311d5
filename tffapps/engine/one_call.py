"""All that is done for one client in one pass, folded into the aggregates, as one TensorFlow function.

A client's work, what an aggregator has it do, and every fold are functions of their own in a TFF computation: six calls
a client for a weighted mean, each with its tensors taken apart and put together in Python. For a small client that is
as long as its training. Traced as one they are one call; values and their order are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated import framework as _f

from tffapps.engine.client_work import ClientWork, check_closed
from tffapps.engine.plan import Plan, argument
from tffapps.engine.values import Struct, flatten, pack


class OneCall:
    """`inputs` say what to call it with; NotImplementedError if a pass has something that cannot be a part of it."""

    def __init__(self, plan: Plan, number: int, evaluate: Callable[[_f.ComputationBuildingBlock], Any]) -> None:
        """`evaluate` gives the function that a block without free names stands for."""
        work = ClientWork(plan.steps, number)
        todo = [step for step in plan.steps if step.pass_number == number]
        accumulates = {step.name: argument(step.call, 2) for step in todo if step.aggregates}
        for block in accumulates.values():
            check_closed(block)
        self.inputs = work.inputs
        self._kept = {step.name: step.call.type_signature.member for step in todo if step.keep}
        self._totals = {name: block.type_signature.parameter[0] for name, block in accumulates.items()}
        train, folds = evaluate(work.body), {name: evaluate(block) for name, block in accumulates.items()}

        def everything(*tensors: tf.Tensor) -> list[tf.Tensor]:
            given = iter(tensors)
            answer = train(Struct([(None, pack(each.type, given)) for each in work.inputs]))
            totals = {name: pack(kind, given) for name, kind in self._totals.items()}
            folded = [
                fold(Struct([(None, totals[name]), (None, work.folded(name, answer))])) for name, fold in folds.items()
            ]
            results = Struct([(None, value) for value in [*folded, *(work.kept(name, answer) for name in self._kept)]])
            return list(flatten(results))

        kinds = [*(each.type for each in work.inputs), *self._totals.values()]
        specs = [spec for kind in kinds for spec in _specs(kind)]
        with tf.device(None):  # it may be called on any
            self._function = tf.function(everything, autograph=False).get_concrete_function(*specs)

    def __call__(
        self, inputs: Sequence[Sequence[tf.Tensor]], totals: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The new totals, in the order of the pass's aggregations, and by step what is kept.

        Args:
          inputs: the tensors of each of `inputs`.
          totals: as they are before this client.
        """
        tensors = [tensor for part in inputs for tensor in part]
        for total in totals:
            tensors.extend(flatten(total))
        # As in `GraphFunction`: the public call describes every tensor first.
        results = iter(self._function._call_flat(tensors, self._function.captured_inputs))
        folded = [pack(kind, results) for kind in self._totals.values()]
        return folded, {name: pack(kind, results) for name, kind in self._kept.items()}


def _specs(kind: tff.Type) -> Iterator[tf.TensorSpec]:
    """Of the tensors of a value of this type, in the order of `flatten`."""
    if isinstance(kind, tff.StructType):
        for _, part in tff.structure.iter_elements(kind):
            yield from _specs(part)
    elif isinstance(kind, tff.SequenceType):
        yield tf.TensorSpec([], tf.variant)
    else:
        yield tf.TensorSpec(kind.shape, tf.as_dtype(kind.dtype.type))
