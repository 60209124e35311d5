"""Pseudo-labelling (PLFL): the clients have images but no labels, and label them with the model they receive.

FedAvg, but for one thing: before it trains, a client predicts its own images, keeps those whose highest probability
reaches the threshold, and takes the prediction for the label. All of it happens inside the client computation. The
true labels, where a study has them, are only counted against the pseudo-labels; no gradient sees them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    import tensorflow as tf


class UnlabelledData(NamedTuple):
    """A client's data. `rows` number the images, so that the two passes agree on which is which."""

    labelling: Any  # dataset of (images, rows), every image once, not augmented
    training: Any  # dataset of (images, rows), all epochs, shuffled and augmented
    truth: Any  # int32 (images): true labels for the report, −1 where unknown

    @classmethod
    def spec(cls, batches: Any) -> UnlabelledData:
        """What a task's `client_spec` has to be, for batches of this element spec."""
        import tensorflow as tf

        dataset = tf.data.DatasetSpec(batches)
        return cls(dataset, dataset, tf.TensorSpec([None], tf.int32))


@dataclasses.dataclass(frozen=True)
class PseudoLabel(Method):
    name: ClassVar[str] = "plfl"

    threshold: float = setting(0.70, "lowest probability of a pseudo-label that is trained on (thesis)", least=0)
    pseudo_batch: int = setting(32, "images a batch of pseudo-labelled images", least=1)
    classes: int = setting(3, "number of classes", least=2)

    @property
    def report_columns(self) -> tuple[str, ...]:
        return tuple(f"{what}_{label}" for what in ("kept", "right") for label in range(self.classes))

    def work(self, task, data, position):
        import tensorflow as tf

        from tffapps.federated import local

        del position
        probabilities = self.predict(task.model, data.labelling, tf.shape(data.truth)[0])
        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        kept = self.choose(probabilities)
        chosen = data.training.unbatch().filter(lambda image, row: kept[row])
        batches = chosen.map(lambda image, row: (image, labels[row])).batch(self.pseudo_batch)
        done = local.train(task.model, batches, task.loss, self.client_optimizer(), self.gradients)
        right = tf.logical_and(kept, labels == data.truth)
        return done._replace(extras=(*self._per_class(labels, kept), *self._per_class(labels, right)))

    def choose(self, probabilities: tf.Tensor) -> tf.Tensor:
        """Which images are trained on: bool (images)."""
        import tensorflow as tf

        return tf.reduce_max(probabilities, axis=-1) >= self.threshold

    def predict(self, model: tf.keras.Model, batches: tf.data.Dataset, count: tf.Tensor) -> tf.Tensor:
        """Probabilities (images, classes) by row; a row that never came (an unreadable file) is all zeros."""
        import tensorflow as tf

        @tf.function
        def run(batches, count):
            table = tf.zeros([count, self.classes])
            for images, rows in iter(batches):
                table = tf.tensor_scatter_nd_update(table, rows[:, tf.newaxis], model(images, training=False))
            return table

        return run(batches, count)

    def _per_class(self, labels: tf.Tensor, mask: tf.Tensor) -> list[tf.Tensor]:
        import tensorflow as tf

        counts = tf.math.bincount(tf.boolean_mask(labels, mask), minlength=self.classes, maxlength=self.classes)
        return tf.unstack(tf.cast(counts, tf.float32), num=self.classes)
