"""FedProto (Tan et al. 2022): the clients' models stay with them; only prototypes, mean embeddings of classes, cross.

A client trains its own model with cross-entropy + weight · the mean squared distance of every embedding to the global
prototype of its class, then sends the sums of its embeddings by class; the server's prototypes are the means over all
images of a class. The first round has none: cross-entropy only. A class that nobody has in a round keeps its prototype.

There is no global model: what is to be judged are the clients' own (`Trained.kept`), or the distance of their
embeddings to the prototypes. Unlike in the paper all clients have the same network, and begin with the same weights.
With weight 0 every client trains alone.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated import embeddings
from tffapps.federated.embeddings import EmbeddingMethod, Means, TrainingAndOnce
from tffapps.federated.lazy import np, tf
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class FedProto(EmbeddingMethod):
    name: ClassVar[str] = "fedproto"
    sends_weights: ClassVar[bool] = False

    proto_weight: float = setting(1.0, "FedProto: weight of the distance to the prototype (its code)", least=0)

    @property
    def learns_embeddings(self) -> bool:
        return bool(self.proto_weight)

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The global prototypes."""
        return embeddings.no_means(task)

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        return embeddings.sum_specs(task)

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        data = TrainingAndOnce.of(data)
        done = self.train_with_embeddings(task, data.training, self.loss(task, Means(*site.memory)))
        sums = self.class_sums(task, data.once)
        return done._replace(sent=sums.per_example(done.examples))

    def loss(self, task: Task, prototypes: Means) -> Any:
        """(labels, embeddings, outputs) -> the loss of each example."""

        def loss(labels: tf.Tensor, vectors: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            distances = embeddings.mean_squares(vectors, tf.gather(prototypes.values, labels))
            return task.loss(labels, outputs) + self.proto_weight * tf.gather(prototypes.there, labels) * distances

        return loss

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        return list(embeddings.received_means(sent).or_else(Means(*memory)))
