"""FPL (Huang et al. 2023): FedAvg whose clients are drawn to prototypes that no group of clients dominates.

Each client sends its prototypes, the mean embeddings of its classes. The server clusters those of every class by FINCH
(cosine, first partition) and tells the means of the clusters, the cluster prototypes; their mean is the unbiased
prototype of the class. A client's loss is cross-entropy
 + InfoNCE: −log of the share that the cluster prototypes of its class have in the sum of e^(cosine / τ) over all
 + the mean squared distance of the embedding to the unbiased prototype of its class.
The first round has no prototypes: cross-entropy only. A class that nobody has in a round keeps its prototypes.
With both weights 0 it is FedAvg.

The prototypes are gathered one by one, not summed: secure aggregation does not cover them, and dp is refused.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated import embeddings
from tffapps.federated.embeddings import EmbeddingMethod, TrainingAndOnce
from tffapps.federated.lazy import np, tf
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.finch import Clusters
    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.task import Task

_NEVER = -1e9  # a logit that does not count


@dataclasses.dataclass(frozen=True)
class FPL(EmbeddingMethod):
    name: ClassVar[str] = "fpl"
    counts_clients: ClassVar[bool] = True  # its memory has room for the clusters of so many

    fpl_temperature: float = setting(0.02, "FPL: τ of the contrast (paper)", above=0)
    fpl_contrast: float = setting(1.0, "FPL: weight of the contrast with cluster prototypes (paper)", least=0)
    fpl_mse: float = setting(1.0, "FPL: weight of the distance to the unbiased prototype (paper)", least=0)

    @property
    def learns_embeddings(self) -> bool:
        return bool(self.fpl_contrast or self.fpl_mse)

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The cluster prototypes: room for as many as the clients of a round can have."""

        from tffapps.federated.finch import most_clusters

        values, there = embeddings.no_means(task)
        most = most_clusters(task.clients)
        return [np.repeat(values[:, np.newaxis], most, axis=1), np.repeat(there[:, np.newaxis], most, axis=1)]

    def gathered_specs(self, task: Task) -> list[tf.TensorSpec]:
        return embeddings.sum_specs(task)

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from tffapps.federated.finch import Clusters

        data = TrainingAndOnce.of(data)
        done = self.train_with_embeddings(task, data.training, self.loss(task, Clusters(*site.memory)))
        return done._replace(gathered=tuple(self.class_sums(task, data.once).means()))

    def loss(self, task: Task, clusters: Clusters) -> Any:
        """(labels, embeddings, outputs) -> the loss of each example."""

        def loss(labels: tf.Tensor, vectors: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            total = task.loss(labels, outputs)
            if self.fpl_contrast:
                total += self.fpl_contrast * contrast(labels, vectors, clusters, self.fpl_temperature)
            if self.fpl_mse:
                total += self.fpl_mse * distance(labels, vectors, clusters)
            return total

        return loss

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        from tffapps.federated.finch import cluster_means

        values, there = sent
        clusters = cluster_means(_by_class(values, task.clients), _by_class(there, task.clients))
        none = tf.reduce_sum(clusters.there, axis=1) == 0  # of the class
        return [
            tf.where(tf.reshape(none, [-1] + [1] * (new.shape.rank - 1)), old, new)
            for new, old in zip(clusters, memory)
        ]


def contrast(labels: tf.Tensor, vectors: tf.Tensor, clusters: Clusters, temperature: float) -> tf.Tensor:
    """InfoNCE of each example with the cluster prototypes, 0 where its class has none: (batch)."""
    classes, most, size = clusters.means.shape
    logits = embeddings.cosines(vectors, tf.reshape(clusters.means, [classes * most, size])) / temperature
    there = tf.reshape(clusters.there, [classes * most]) > 0
    own = tf.repeat(tf.range(classes), most) == labels[:, tf.newaxis]  # (batch, classes · most)
    every = tf.reduce_logsumexp(tf.where(there, logits, _NEVER), axis=1)
    positive = tf.reduce_logsumexp(tf.where(tf.logical_and(there, own), logits, _NEVER), axis=1)
    return tf.where(_has_any(labels, clusters), every - positive, 0.0)


def distance(labels: tf.Tensor, vectors: tf.Tensor, clusters: Clusters) -> tf.Tensor:
    """Mean squared distance of each example to the unbiased prototype of its class, 0 where there is none: (batch)."""
    counts = tf.reduce_sum(clusters.there, axis=1, keepdims=True)
    unbiased = tf.math.divide_no_nan(tf.reduce_sum(clusters.means, axis=1), counts)  # absent ones are zeros
    squares = embeddings.mean_squares(vectors, tf.gather(unbiased, labels))
    return tf.where(_has_any(labels, clusters), squares, 0.0)


def _has_any(labels: tf.Tensor, clusters: Clusters) -> tf.Tensor:

    return tf.gather(tf.reduce_any(clusters.there > 0, axis=1), labels)


def _by_class(rows: tf.Tensor, clients: int) -> tf.Tensor:
    """(clients that took part, classes, …) as (classes, clients, …), filled up with zeros."""
    missing = clients - tf.shape(rows)[0]
    with tf.control_dependencies([tf.debugging.assert_non_negative(missing, "build_round was told of fewer clients")]):
        padded = tf.pad(rows, [[0, missing], *([0, 0] for _ in rows.shape[1:])])
    padded = tf.ensure_shape(padded, [clients, *rows.shape[1:]])
    return tf.transpose(padded, [1, 0, *range(2, padded.shape.rank)])
