"""What SCAFFOLD and FedDyn share: a vector of each client's own, and their mean over all clients at the server.

The mean is weighted by examples, like the mean of updates, and holds every client that has ever taken part, also those
that are away: only then do the corrections of all clients cancel. A client that takes part says how its vector has
changed; the server, which adds up examples from the clients' reports anyway, knows what share of all that is.
A client's number of examples is taken to be the same in all rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tffapps.federated.lazy import np, tf

if TYPE_CHECKING:
    from tffapps.federated.task import Task


class Share(NamedTuple):
    """Of the clients of one round in all that have ever taken part."""

    before: tf.Tensor  # examples of all clients so far
    after: tf.Tensor
    present: tf.Tensor  # examples of those that took part

    @classmethod
    def of(cls, before: tf.Tensor, newcomers: tf.Tensor, examples: tf.Tensor) -> Share:
        """`newcomers`: the weighted mean of 1 for a client's first round, 0 otherwise; `examples`: of each client."""
        present = tf.reduce_sum(examples)
        return cls(before, before + present * newcomers, present)

    def moved(self, mean: tf.Tensor, change: tf.Tensor) -> tf.Tensor:
        """The mean over all clients, after a round in which the mean change of those that took part was `change`."""
        return tf.math.divide_no_nan(self.before * mean + self.present * change, self.after)


NOT_YET = 1.0  # what a client keeps before its first round, and 0 afterwards


def scalar(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def zeros_like_trained(task: Task) -> list[np.ndarray]:
    """One array for each of the trained weights."""
    return [np.zeros(variable.shape, np.float32) for variable in task.model.trainable_variables]
