"""Rounds that begin with a trained model and keep a hold on the server's labelled (gold) images.

PLFL+ (`pseudo_label_plus`) is this with pseudo-labels. `Labelled` is this with the true labels of whoever trains, so
that it is the ceiling of PLFL+ where clients have them, and its control where nobody but the server trains.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.federated.lazy import tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.optimizers import LocalOptimizer
    from tffapps.federated.task import Task


class GoldData(NamedTuple):
    """Labelled images of a round: the server's, or whose ever labels are used."""

    batches: Any  # dataset of (images, labels), all epochs
    steps: Any  # int32: how many batches
    prior: Any  # float32 (classes): class shares among the server's

    @classmethod
    def spec(cls, batches: Any) -> GoldData:

        return cls(tf.data.DatasetSpec(batches), tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32))


@dataclasses.dataclass(frozen=True)
class Anchored(Method):
    server_epochs: int = setting(2, "PLFL+: epochs on gold images after every average", least=0)
    class_weights: float = setting(0.0, "PLFL+: power of 1 / class share in the loss", least=0)
    rate_share: float = setting(0.25, "PLFL+: its learning rate, as a share of --learning-rate", above=0)
    average_from: int = setting(3, "PLFL+: the result is the mean of the models from this round on; 0: off", least=0)

    def client_optimizer(self) -> LocalOptimizer:
        # A new Adam moves every weight by about the learning rate in its first step; the model has been trained.
        slower = dataclasses.replace(self, learning_rate=self.learning_rate * self.rate_share)
        return super(Anchored, slower).client_optimizer()

    def server_work(self, task: Task, data: Any) -> None:
        self.train_on(task, data)

    def train_on(self, task: Task, data: GoldData) -> ClientResult:
        """Supervised training of `task.model`."""
        from tffapps.federated import local

        weights = self.weights_of(data.prior)

        def loss(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            return tf.gather(weights, labels) * task.loss(labels, outputs)

        steps = self.scheduled(data.steps)
        return local.train(
            task.model, data.batches, loss, self.client_optimizer(), self.gradients, steps,
            scaling=self.scaling(task), average=self.average_weights,
        )  # fmt: skip

    def weights_of(self, prior: tf.Tensor) -> tf.Tensor:
        """Of each class in the loss; their mean over the gold images is 1."""
        raw = tf.math.divide_no_nan(1.0, prior) ** self.class_weights
        return raw / tf.reduce_sum(prior * raw)


@dataclasses.dataclass(frozen=True)
class Labelled(Anchored):
    """Clients train on true labels (`GoldData`)."""

    name: ClassVar[str] = "labels"

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        return self.train_on(task, data)
