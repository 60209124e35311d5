"""PLFL+ (ours): pseudo-labelling that does not drift away from the labels there are.

As published, clients train on pseudo-labels alone: the model's own mistakes come back as labels, and the commonest
class takes over. PLFL+ adds, each part with a flag of its own so that it can be left out:

  - the server trains on its labelled (gold) images again after every average           --server-epochs, 0: off
  - a client keeps its most confident images class by class, in the gold set's class
    shares, and not whatever reaches a threshold                                        --keep, 0: off
  - predictions are first scaled so that their mean is the gold set's class shares
    (distribution alignment, Berthelot et al. 2020)                                     --alignment, 0: off
  - rare classes count for more in the loss                                             --class-weights, 0: off
  - labels come from the mean prediction over augmented views of an image               --label-views, 0: off
  - the prediction itself, not its likeliest class, is the label                        --soft-labels
  - a client trains on all that it keeps and holds nothing out                          --plus-train-share, 0.8: off
  - smaller steps, because every round begins with a trained model and a new optimiser  --rate-share, 1: off
  - the result is the mean of the models of the later rounds                            --average-from, 0: off
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.federated.lazy import tf
from tffapps.federated.pseudo_label import PseudoLabel
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.optimizers import LocalOptimizer
    from tffapps.federated.task import Task


class GoldData(NamedTuple):
    """The server's data in a round."""

    batches: Any  # dataset of (images, labels), all epochs
    steps: Any  # int32: how many batches
    prior: Any  # float32 (classes): class shares among them

    @classmethod
    def spec(cls, batches: Any) -> GoldData:

        return cls(tf.data.DatasetSpec(batches), tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32))


@dataclasses.dataclass(frozen=True)
class PseudoLabelPlus(PseudoLabel):
    name: ClassVar[str] = "plfl+"

    server_epochs: int = setting(2, "PLFL+: epochs on gold images after every average", least=0)
    keep: float = setting(1.0, "PLFL+: share of its images a client keeps, by class; 0: threshold", least=0)
    alignment: float = setting(0.0, "PLFL+: power of distribution alignment", least=0)
    class_weights: float = setting(0.0, "PLFL+: power of 1 / class share in the loss", least=0)
    plus_train_share: float = setting(1.0, "PLFL+: of the images a client keeps: trained on", above=0, most=1)
    rate_share: float = setting(0.25, "PLFL+: its learning rate, as a share of --learning-rate", above=0)
    average_from: int = setting(3, "PLFL+: the result is the mean of the models from this round on; 0: off", least=0)
    soft_labels: bool = setting(False, "PLFL+: train on the predictions themselves, not on the likeliest class")

    def client_optimizer(self) -> LocalOptimizer:
        # A new Adam moves every weight by about the learning rate in its first step; the model has been trained.
        slower = dataclasses.replace(self, learning_rate=self.learning_rate * self.rate_share)
        return super(PseudoLabelPlus, slower).client_optimizer()

    def trained_share(self) -> float:
        return self.plus_train_share

    def adjust(self, probabilities: tf.Tensor, prior: tf.Tensor) -> tf.Tensor:

        if not self.alignment:
            return probabilities
        mean = tf.reduce_mean(probabilities, axis=0)
        scaled = probabilities * tf.math.divide_no_nan(prior, mean) ** self.alignment
        return tf.math.divide_no_nan(scaled, tf.reduce_sum(scaled, axis=-1, keepdims=True))

    def choose(self, probabilities: tf.Tensor, prior: tf.Tensor) -> tf.Tensor:

        if not self.keep:
            return super().choose(probabilities, prior)
        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        confidence = tf.reduce_max(probabilities, axis=-1)
        # Each image's rank among those of its label, the surest first.
        surer = tf.logical_and(labels[:, tf.newaxis] == labels, confidence > confidence[:, tf.newaxis])
        rank = tf.reduce_sum(tf.cast(surer, tf.float32), axis=-1)
        quota = tf.round(self.keep * prior * tf.cast(tf.shape(labels)[0], tf.float32))
        return rank < tf.gather(quota, labels)

    def loss(self, task: Task, probabilities: tf.Tensor, prior: tf.Tensor) -> Any:

        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        weights = self._weights(prior)

        def loss(rows: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            given = tf.gather(labels, rows)
            if self.soft_labels:
                each = tf.keras.losses.categorical_crossentropy(tf.gather(probabilities, rows), outputs)
            else:
                each = task.loss(given, outputs)
            return tf.gather(weights, given) * each

        return loss

    def server_work(self, task: Task, data: Any) -> None:

        from tffapps.federated import local

        weights = self._weights(data.prior)

        def loss(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            return tf.gather(weights, labels) * task.loss(labels, outputs)

        steps = self.scheduled(data.steps)
        local.train(
            task.model, data.batches, loss, self.client_optimizer(), self.gradients, steps, scaling=self.scaling(task)
        )

    def _weights(self, prior: tf.Tensor) -> tf.Tensor:
        """Of each class in the loss; their mean over the gold images is 1."""
        raw = tf.math.divide_no_nan(1.0, prior) ** self.class_weights
        return raw / tf.reduce_sum(prior * raw)
