"""One example, two trained tensors, a squared error: numbers that a method's step can be worked out for by hand.

The model is k · 0.75 + b, the loss half the square of its distance to 2. A gradient is always along (0.75, 1), that is
(0.6, 0.8) at length 1.
"""

import numpy as np
import tensorflow as tf

from tffapps.engine import open_engine
from tffapps.federated.round import build_round
from tffapps.federated.task import Task

START = [np.array([[4.0]], np.float32), np.array([1.0], np.float32)]
SPEC = (tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None], tf.float32))


def task() -> Task:
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    return Task.of_batches(model, SPEC, lambda labels, outputs: (outputs[:, 0] - labels) ** 2 / 2)


def played(method, rounds: int = 1, target: float = 2.0) -> tuple[list[float], float]:
    """(k, b) and the loss reported last."""
    data = tf.data.Dataset.from_tensors((np.array([[0.75]], np.float32), np.array([target], np.float32)))
    round_ = build_round(task(), method)
    with open_engine("in-process"):
        state = round_.start(START)
        for _ in range(rounds):
            state, reports, *_ = round_.next(state, [0], [data])
    return [float(np.ravel(weight)[0]) for weight in state.weights], float(reports[0][3])
