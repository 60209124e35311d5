"""Pseudo-labelling (PLFL): the clients have images but no labels, and label them with the model they receive.

FedAvg, but for one thing: before it trains, a client predicts its own images, keeps those whose highest probability
reaches the threshold, takes the prediction for the label, and divides what it kept 80/10/10 into training, validation
and test. All of it happens inside the client computation. The true labels, where a study has them, are only counted
against the predictions; no gradient sees them.

A client reports how many labels of each class it trained with or held out (kept), how many of those were right, and
how its own trained model does: against the pseudo-labels of its test part, as the thesis measures it, and against the
true labels of all its images.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.federated.lazy import tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task


class UnlabelledData(NamedTuple):
    """A client's data. `rows` number the images, so that the passes agree on which is which."""

    labelling: Any  # dataset of (images, rows): where an image comes several times, its predictions are averaged
    testing: Any  # dataset of (images, rows), every image once, as it is
    training: Any  # dataset of (images, rows), all epochs, shuffled and augmented
    truth: Any  # int32 (images): true labels for the report, −1 where unknown
    epochs: Any  # int32: of `training`
    draw: Any  # float32 (images): random numbers that decide who is held out
    prior: Any  # float32 (classes): class shares among the server's labelled images

    @classmethod
    def spec(cls, batches: Any) -> UnlabelledData:
        """What a task's `client_spec` has to be, for batches of this element spec."""
        dataset, numbers = tf.data.DatasetSpec(batches), tf.TensorSpec([None], tf.float32)
        truth, epochs = tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32)
        return cls(dataset, dataset, dataset, truth, epochs, numbers, numbers)


@dataclasses.dataclass(frozen=True)
class PseudoLabel(Method):
    name: ClassVar[str] = "plfl"
    all_labelled: ClassVar[bool] = False

    threshold: float = setting(0.70, "lowest probability of a pseudo-label that is trained on (thesis)", least=0)
    pseudo_batch: int = setting(32, "images a batch of pseudo-labelled images (thesis)", least=1)
    train_share: float = setting(0.8, "of the images a client keeps: trained on (thesis)", above=0, most=1)
    test_share: float = setting(0.1, "of the images a client keeps: its own test (thesis)", least=0, below=1)

    def report_columns(self, task: Task) -> tuple[str, ...]:
        classes = range(task.model.output_shape[-1])
        counts = tuple(f"{what}_{label}" for what in ("kept", "right") for label in classes)
        return counts + tuple(f"{what}_{i}_{j}" for what in ("test", "truth") for i in classes for j in classes)

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:

        from tffapps.federated import local

        model, count = task.model, tf.shape(data.truth)[0]
        probabilities = self.adjust(self.predicted(task, data, count, site), data.prior)
        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        seen = tf.reduce_any(probabilities > 0, axis=-1)  # an unreadable file's row is all zeros
        kept = tf.logical_and(seen, self.choose(probabilities, data.prior))
        rank = relative_ranks(kept, data.draw)
        share = self.trained_share()
        trained = tf.logical_and(kept, rank < share)
        tested = tf.logical_and(kept, rank >= max(share, 1.0 - self.test_share))

        batches = data.training.unbatch().filter(lambda image, row: trained[row]).batch(self.pseudo_batch)
        loss = self.loss(task, probabilities, data.prior)
        done = local.train(
            model, batches, loss, self.client_optimizer(), self.gradients, self.scheduled(self._steps(trained, data)),
            scaling=self.scaling(task), average=self.average_weights,
        )  # fmt: skip

        predicted = tf.argmax(predict(model, data.testing, count), axis=-1, output_type=tf.int32)
        known = tf.logical_and(seen, data.truth >= 0)
        extras = (
            per_class(labels, kept, probabilities),
            per_class(labels, tf.logical_and(kept, labels == data.truth), probabilities),
            _confusion(labels, predicted, tested, probabilities),
            _confusion(data.truth, predicted, known, probabilities),
        )
        return done._replace(extras=tuple(tf.unstack(tf.concat(extras, axis=0))))

    def _steps(self, trained: tf.Tensor, data: UnlabelledData) -> tf.Tensor:

        images = data.epochs * tf.reduce_sum(tf.cast(trained, tf.int32))
        return -(-images // self.pseudo_batch)

    def trained_share(self) -> float:
        return self.train_share

    def predicted(self, task: Task, data: Any, count: tf.Tensor, site: ClientContext) -> tf.Tensor:
        """Probabilities (images, classes) that labels are made of."""
        return predict(task.model, data.labelling, count)

    def adjust(self, probabilities: tf.Tensor, prior: tf.Tensor) -> tf.Tensor:
        """What is taken for the probabilities (images, classes) from here on."""
        return probabilities

    def choose(self, probabilities: tf.Tensor, prior: tf.Tensor) -> tf.Tensor:
        """Which images are kept: bool (images)."""
        return tf.reduce_max(probabilities, axis=-1) >= self.threshold

    def loss(self, task: Task, probabilities: tf.Tensor, prior: tf.Tensor) -> Any:
        """(rows, outputs) -> the loss of each example."""
        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return lambda rows, outputs: task.loss(tf.gather(labels, rows), outputs)


def predict(model: tf.keras.Model, batches: tf.data.Dataset, count: tf.Tensor) -> tf.Tensor:
    """Probabilities (images, classes) by row, the mean of those of all its views.

    A row that never came (an unreadable file) is all zeros.
    """

    classes = model.output_shape[-1]

    @tf.function
    def run(batches: tf.data.Dataset, count: tf.Tensor) -> tf.Tensor:
        table = tf.zeros([count, classes])
        for images, rows in iter(batches):
            table = tf.tensor_scatter_nd_add(table, rows[:, tf.newaxis], model(images, training=False))
        return tf.math.divide_no_nan(table, tf.reduce_sum(table, axis=-1, keepdims=True))

    return run(batches, count)


def relative_ranks(kept: tf.Tensor, draw: tf.Tensor) -> tf.Tensor:
    """Where each kept image stands in a random order of them, from 0 to just under 1."""

    order = tf.argsort(tf.where(kept, draw, tf.fill(tf.shape(draw), 2.0)), stable=True)
    rank = tf.math.invert_permutation(order)
    return tf.cast(rank, tf.float32) / tf.maximum(tf.reduce_sum(tf.cast(kept, tf.float32)), 1.0)


def per_class(labels: tf.Tensor, mask: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
    """How many of the masked images have each label: float32 (classes)."""

    classes = probabilities.shape[-1]
    counts = tf.math.bincount(tf.boolean_mask(labels, mask), minlength=classes, maxlength=classes)
    return tf.ensure_shape(tf.cast(counts, tf.float32), [classes])


def _confusion(labels: tf.Tensor, predicted: tf.Tensor, mask: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:

    classes = probabilities.shape[-1]
    counts = tf.math.confusion_matrix(
        tf.boolean_mask(labels, mask), tf.boolean_mask(predicted, mask), classes, dtype=tf.float32
    )
    return tf.reshape(counts, [classes * classes])
