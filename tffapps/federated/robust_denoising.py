"""Denoising against client drift: a client sees its own condition alone, and in a long round forgets the others'.

Two changes to `Denoising`, for few rounds of many epochs:

    rows     each client's row of the embedding is its own: it alone moves it, and by the whole step, not by the share
             of its examples in the mean
    weights  all others are held to the model that the round began with: mu · (w − w_global) is added to the gradient
             (FedProx), so that what tells clients apart has to go into the rows

To the update a client adds the one-hot vector of its place; its mean is every client's share, by which the server
divides the rows. With mu = 0 and one client it is `Denoising`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.denoising import Denoising
from tffapps.federated.lazy import tf

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult, LossAndGradients, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class RobustDenoising(Denoising):
    name: ClassVar[str] = "robust-denoising"

    mu: float = 1.0  # weight of the proximal term
    embedding: int = 0  # the place, among the trained weights, of the one with a row for each client

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        return [tf.TensorSpec([self._rows(task).shape[0]], tf.float32)]

    def gradients(
        self, loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        loss, gradients = loss_and_gradients()
        held = [0.0 if place == self.embedding else self.mu for place in range(len(variables))]
        pulled = zip(held, gradients, variables, start)
        return loss, [tf.convert_to_tensor(g) + mu * (v - s) for mu, g, v, s in pulled]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        rows = self._rows(task)
        before = rows.read_value()
        done = super().work(task, data, site)
        place = tf.one_hot(site.position, rows.shape[0])
        rows.assign(tf.where(place[:, tf.newaxis] > 0, rows, before))  # weight decay moves the others' as well
        return done._replace(sent=(place,))

    def mean_update(self, update: Tensors, sent: Tensors) -> Tensors:
        whole = tf.math.divide_no_nan(update[self.embedding], sent[0][:, tf.newaxis])
        return [whole if place == self.embedding else part for place, part in enumerate(update)]

    def _rows(self, task: Task) -> tf.Variable:
        return task.model.trainable_variables[self.embedding]
