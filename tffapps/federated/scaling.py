"""Loss scaling for networks that compute in float16 (Micikevicius et al. 2018, section 3.2): plain TensorFlow.

Gradients below 6e-8 are zero in float16. The loss is multiplied before they are taken, and they are divided afterwards,
in float32. A step whose gradients are not finite is not taken: weights, BatchNorm's statistics and the optimiser's
state stay as they were, and it is counted. A dynamic scale is halved then, and doubled after a while without.

Deviation: the scale begins at 2^10 and is doubled after 200 steps, where others begin at 2^15 and double after 2,000: a
client's training is short and begins anew every round, so that steps lost at its start would be lost in every round.
bfloat16 has the range of float32 and needs none of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from models.precision import precision_of

FIRST_SCALE, LARGEST_SCALE, DOUBLED_AFTER = 2.0**10, 2.0**15, 200
COLUMN = "overflowed"  # of the clients' reports: steps that were not taken
Undo = list[tuple[tf.Variable, tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class LossScaling:
    """`needed=False`: nothing is scaled, and every step is taken, as without it."""

    needed: bool
    fixed: float = 0.0  # 0: dynamic

    @classmethod
    def none(cls) -> LossScaling:
        return cls(False)

    @classmethod
    def of(cls, model: tf.keras.Model, fixed: float = 0.0) -> LossScaling:
        """What a model needs."""
        return cls(precision_of(model) == "float16", fixed)

    def start(self) -> Any:
        """(scale, steps since it was changed, steps not taken), all float32; nothing where none is needed."""
        if not self.needed:
            return ()
        return tf.constant(self.fixed or FIRST_SCALE), tf.constant(0.0), tf.constant(0.0)

    def scaled(self, loss: tf.Tensor, state: Any) -> tf.Tensor:
        return loss * state[0] if self.needed else loss

    def unscaled(self, gradients: Sequence[tf.Tensor], state: Any) -> list[tf.Tensor]:
        if not self.needed:
            return list(gradients)
        return [tf.convert_to_tensor(gradient) / state[0] for gradient in gradients]

    def kept(self, variables: Sequence[tf.Variable]) -> Undo:
        """What variables are before a step, for the case that it is not taken."""
        return [(variable, variable.read_value()) for variable in variables] if self.needed else []

    def step(
        self, take: Callable[[], Any], optimizer_state: Any, gradients: Sequence[tf.Tensor], state: Any, undo: Undo
    ) -> tuple[Any, Any, Any]:
        """Takes the step if all gradients are finite: the optimiser's next state, this one's, 1.0 if it was taken."""
        if not self.needed:
            return take(), state, 1.0
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])

        def leave() -> Any:
            for variable, value in undo:
                variable.assign(value)
            return optimizer_state

        after = tf.cond(finite, take, leave)
        taken = tf.cast(finite, tf.float32)
        return after, self._next(state, taken), taken

    def _next(self, state: Any, taken: tf.Tensor) -> Any:
        scale, since, overflowed = state
        overflowed += 1.0 - taken
        if self.fixed:
            return scale, since, overflowed
        since = taken * (since + 1.0)
        long_enough = since >= DOUBLED_AFTER
        more = tf.where(long_enough, tf.minimum(2.0 * scale, LARGEST_SCALE), scale)
        scale = tf.where(taken > 0, more, tf.maximum(scale / 2.0, 1.0))
        return scale, tf.where(long_enough, 0.0, since), overflowed

    def overflowed(self, state: Any) -> tf.Tensor:
        """Steps not taken."""
        return state[2] if self.needed else tf.constant(0.0)


def columns(model: tf.keras.Model) -> tuple[str, ...]:
    """Of a client's report, behind those of the method."""
    return (COLUMN,) if LossScaling.of(model).needed else ()
