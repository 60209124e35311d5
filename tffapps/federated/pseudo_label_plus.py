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
  - predictions are first made less sure, by a temperature (Guo et al. 2017)            --temperature, 1: off
  - of those kept class by class, none below a probability                              --floor, 0: off
  - an average of the models of all rounds labels, not the last (Tarvainen and
    Valpola 2017); clients receive it beside the model                                  --label-decay, 0: off
  - a client trains on all that it keeps and holds nothing out                          --plus-train-share, 0.8: off
  - smaller steps, because every round begins with a trained model and a new optimiser  --rate-share, 1: off
  - the result is the mean of the models of the later rounds                            --average-from, 0: off
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.anchored import Anchored
from tffapps.federated.lazy import np, tf
from tffapps.federated.pseudo_label import PseudoLabel
from tffapps.settings import CHANGED, setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class PseudoLabelPlus(Anchored, PseudoLabel):
    name: ClassVar[str] = "plfl+"

    keep: float = setting(1.0, "PLFL+: share of its images a client keeps, by class; 0: threshold", least=0)
    alignment: float = setting(0.0, "PLFL+: power of distribution alignment", least=0)
    plus_train_share: float = setting(1.0, "PLFL+: of the images a client keeps: trained on", above=0, most=1)
    temperature: float = setting(
        1.0, "PLFL+: probabilities to the power of 1 / this, before all else", above=0, in_key=CHANGED
    )
    floor: float = setting(0.0, "PLFL+: lowest probability of what --keep keeps", least=0, below=1, in_key=CHANGED)
    label_decay: float = setting(
        0.0, "PLFL+: what the averaged weights that label keep in a round; 0: the weights", least=0, below=1,
        in_key=CHANGED,
    )  # fmt: skip
    soft_labels: bool = setting(False, "PLFL+: train on the predictions themselves, not on the likeliest class")

    def trained_share(self) -> float:
        return self.plus_train_share

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The averaged weights that label."""
        return [np.asarray(value) for value in weights] if self.label_decay else []

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        return [self.label_decay * old + (1.0 - self.label_decay) * new for old, new in zip(memory, after)]

    def predicted(self, task: Task, data: Any, count: tf.Tensor, site: ClientContext) -> tf.Tensor:
        from tffapps.federated.perturbed import put_in

        def labelled() -> tf.Tensor:
            return super(PseudoLabelPlus, self).predicted(task, data, count, site)

        return put_in(task.model.weights, site.memory, labelled) if self.label_decay else labelled()

    def adjust(self, probabilities: tf.Tensor, prior: tf.Tensor) -> tf.Tensor:

        if self.temperature != 1.0:
            # An unreadable file's row stays all zeros.
            scaled = probabilities ** (1.0 / self.temperature)
            probabilities = tf.math.divide_no_nan(scaled, tf.reduce_sum(scaled, axis=-1, keepdims=True))
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
        return tf.logical_and(rank < tf.gather(quota, labels), confidence >= self.floor)

    def loss(self, task: Task, probabilities: tf.Tensor, prior: tf.Tensor) -> Any:

        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        weights = self.weights_of(prior)

        def loss(rows: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            given = tf.gather(labels, rows)
            if self.soft_labels:
                shares = tf.unstack(tf.gather(probabilities, rows), axis=-1)
                alike = [task.loss(tf.fill(tf.shape(rows), code), outputs) for code in range(len(shares))]
                each = tf.add_n([share * value for share, value in zip(shares, alike)])
            else:
                each = task.loss(given, outputs)
            return tf.gather(weights, given) * each

        return loss
