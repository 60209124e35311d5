"""What methods share that learn from embeddings: mean embeddings of classes, and training that sees embeddings.

The embedding of an image is what the last layer of the classifier sees (`models.embedding`). The mean over the images
of a class is called a style by FedStyle and a prototype by FedProto and FPL.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tffapps.errors import UserError
from tffapps.federated.lazy import np, tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientResult
    from tffapps.federated.task import Task

STATISTICS = ("moving", "batch")

EPSILON = 1e-12  # squared length below which a vector has no direction


@dataclasses.dataclass(frozen=True)
class EmbeddingMethod(Method):
    """What the methods that learn from embeddings have in common.

    Mean embeddings are compared with embeddings in training, which BatchNorm scales by the batch. Its moving statistics
    are what predictions use, but in the first rounds of a network that begins at random they lag behind by far.
    """

    embedding_statistics: str = setting(
        "moving", "BatchNorm's statistics for mean embeddings: moving (inference mode) or batch", choices=STATISTICS
    )

    def class_sums(self, task: Task, batches: tf.data.Dataset) -> ClassSums:
        """Of a dataset of (images, labels), by the task's model as it is, which stays as it is."""
        return class_sums_of(task, batches, moving=self.embedding_statistics == "moving")

    def train_with_embeddings(
        self, task: Task, data: Any, loss: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
    ) -> ClientResult:
        """`train` with a loss of (labels, embeddings, outputs) -> one value, or one for each example."""
        from models.embedding import with_embedding

        model = with_embedding(task.model)
        return self.train(
            task,
            data,
            forward=lambda images, _: model(images, training=True),
            loss=lambda labels, pair: loss(labels, *pair),
        )


def check_gradient(method: Method, model: tf.keras.Model) -> None:
    """Refuses, by name, a method whose own loss would reach none of the weights that this model trains."""
    from models.embedding import embedding_of

    if method.learns_embeddings and not embedding_of(model).trainable_weights:
        raise UserError(
            f"--methods {method.name}: its own loss is of embeddings, and no weight before the classifying layer"
            " trains, so it has no gradient; give --train-from a stage or all, or --head conv, or leave the method out"
        )


class TrainingAndOnce(NamedTuple):
    """A client's data, or the server's: what it trains on, and every image once as it is, for mean embeddings.

    Plain data serves for both, with all its epochs: the same means up to shuffling and augmentation, in more time.
    """

    training: Any  # dataset of (images, labels), or `local.Counted`
    once: Any  # dataset of (images, labels)

    @classmethod
    def spec(cls, batches: Any, training: Any = None) -> TrainingAndOnce:
        dataset = tf.data.DatasetSpec(batches)
        return cls(training or dataset, dataset)

    @classmethod
    def of(cls, data: Any) -> TrainingAndOnce:
        from tffapps.federated import local

        if isinstance(data, cls):
            return data
        return cls(data, data.batches if isinstance(data, local.Counted) else data)


class Means(NamedTuple):
    """One embedding for each class, and which classes have one."""

    values: Any  # float32 (classes, d), zeros where there is none
    there: Any  # float32 (classes): 0 or 1

    def or_else(self, others: Means) -> Means:
        """These, and the others' where there is none."""
        values = tf.where(self.there[:, tf.newaxis] > 0, self.values, others.values)
        return Means(values, tf.maximum(self.there, others.there))


class ClassSums(NamedTuple):
    sums: Any  # float32 (classes, d), of embeddings
    counts: Any  # float32 (classes), of images

    def means(self) -> Means:
        values = tf.math.divide_no_nan(self.sums, self.counts[:, tf.newaxis])
        return Means(values, tf.cast(self.counts > 0, tf.float32))

    def per_example(self, examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """To be sent: after a mean weighted by examples, sums / counts is the mean over the images of all clients."""
        return tf.math.divide_no_nan(self.sums, examples), tf.math.divide_no_nan(self.counts, examples)


def sum_specs(task: Task) -> list[tf.TensorSpec]:
    """Of `ClassSums`, and of `Means`."""
    classes, size = _shape(task)
    return [tf.TensorSpec([classes, size], tf.float32), tf.TensorSpec([classes], tf.float32)]


def no_means(task: Task) -> list[np.ndarray]:
    """`Means` of no class, as a memory or what is kept begins."""

    return [np.zeros(spec.shape, np.float32) for spec in sum_specs(task)]


def _shape(task: Task) -> tuple[int, int]:
    from models.embedding import embedding_size

    return task.model.output_shape[-1], embedding_size(task.model)


def class_sums(labels: tf.Tensor, embeddings: tf.Tensor, classes: int) -> ClassSums:
    """Of one batch."""
    one_hot = tf.one_hot(labels, classes)  # (batch, classes)
    return ClassSums(tf.matmul(one_hot, embeddings, transpose_a=True), tf.reduce_sum(one_hot, axis=0))


def class_sums_of(task: Task, batches: tf.data.Dataset, moving: bool = True) -> ClassSums:
    """Of a dataset of (images, labels); BatchNorm uses its moving statistics, or each batch's."""
    from models.embedding import with_embedding

    model, (classes, size) = with_embedding(task.model), _shape(task)
    others = [] if moving else task.model.non_trainable_variables

    @tf.function
    def run(batches: tf.data.Dataset) -> tuple[tf.Tensor, tf.Tensor]:
        sums, counts = tf.zeros([classes, size]), tf.zeros([classes])
        before = [variable.read_value() for variable in others]
        for images, labels in iter(batches):
            batch = class_sums(labels, model(images, training=not moving)[0], classes)
            sums, counts = sums + batch.sums, counts + batch.counts
        for variable, value in zip(others, before):
            variable.assign(value)
        return sums, counts

    return ClassSums(*run(batches))


def cosines(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Of every row of one (n, d) with every row of the other (m, d): (n, m); 0 for a row of zeros."""
    first = tf.math.l2_normalize(first, axis=-1, epsilon=EPSILON)
    second = tf.math.l2_normalize(second, axis=-1, epsilon=EPSILON)
    return tf.matmul(first, second, transpose_b=True)


def masked_mean(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Over those with mask 1; 0 if there is none."""
    return tf.math.divide_no_nan(tf.reduce_sum(values * mask), tf.reduce_sum(mask))


def mean_squares(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Mean over the last axis of squared differences."""
    return tf.reduce_mean((first - second) ** 2, axis=-1)


def received_means(sent: Sequence[tf.Tensor]) -> Means:
    """At the server, of the mean over clients of `ClassSums.per_example`."""
    return ClassSums(*sent).means()
