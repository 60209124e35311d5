"""An average of the weights along a training, which takes their place in the end (Polyak and Juditsky 1992; Tarvainen
and Valpola 2017).

After step t, from 1:   average ← d · average + (1 − d) · weights,   d = min(decay, t / (t + 9))

The first average is the weights themselves; d grows, so that a training of few steps forgets its start, too. Statistics
of BatchNorm are averaged like weights. Gradients never see the average.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tffapps.federated.portable import scratch_like

_SLOW_START = 9.0


class Averaged:
    """Of a model's weights, for one call of a training. With decay 0 all of it does nothing."""

    def __init__(self, model: tf.keras.Model, decay: float) -> None:
        self._variables, self._decay = model.weights if decay else [], decay

    def start(self) -> None:
        self._averages = [scratch_like(variable) for variable in self._variables]
        for average, variable in zip(self._averages, self._variables):
            average.assign(variable.read_value())

    def step(self, number: Any) -> None:
        """After a step; `number`, a float32, of those before it."""
        if not self._variables:
            return
        kept = tf.minimum(self._decay, (number + 1.0) / (number + 1.0 + _SLOW_START))
        for average, variable in zip(self._averages, self._variables):
            share = tf.cast(kept, variable.dtype)
            average.assign(share * average.read() + (1 - share) * variable)

    def finish(self) -> None:
        """The average becomes the weights."""
        for average, variable in zip(self._averages, self._variables):
            variable.assign(average.read())
