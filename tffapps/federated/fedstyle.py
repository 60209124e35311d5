"""FedStyle (Ran et al.): FedAvg whose clients and server also draw the mean embeddings of classes, styles, together.

A client trains with λ1 · L1 + λ2 · L2 + λ3 · L3 (Eq. 2): cross-entropy, a contrast between its own style m and those of
all classes (Eq. 3), and the mean squared distance to the global style of its class (Eq. 4). In every step m is the mean
embedding of the batch (Eq. 1). After training it sends the style of all its images, and keeps for its next round the
style set m': its own style at its class, the global styles it was told elsewhere. The server averages the models,
trains on public images, by SGD with the clients' rate and momentum, with λ4 · L1 + λ5 · L2 (Eq. 5, 6) against the
styles it was sent and its own of the round before, and takes the mean embeddings of the public images for the new
global styles (`embedding_statistics` says in which mode).

With λ1 = 1, λ2 = λ3 = 0 and no public images it is FedAvg.

What the paper leaves open:
- The first round has no styles: a client has cross-entropy only, the server the styles just sent. Of two styles that a
  term adds up, one that is not there yet is left out.
- A client with several classes, and the server: L2 and L3 are taken for each class of the batch and averaged over them.
- Without public images (no `server_spec`) the global styles are those sent, averaged over all images of a class.
- A class without public images keeps the global style it has, if any.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated import embeddings
from tffapps.federated.embeddings import ClassSums, EmbeddingMethod, Means, TrainingAndOnce
from tffapps.federated.lazy import np, tf
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class FedStyle(EmbeddingMethod):
    name: ClassVar[str] = "fedstyle"

    style_ce: float = setting(10.0, "FedStyle: weight of the clients' cross-entropy, λ1 (paper)", least=0)
    style_contrast: float = setting(0.05, "FedStyle: weight of the clients' contrast of styles, λ2 (paper)", least=0)
    style_mse: float = setting(20.0, "FedStyle: weight of the distance to the global style, λ3 (paper)", least=0)
    style_server_ce: float = setting(10.0, "FedStyle: weight of the server's cross-entropy, λ4 (paper)", least=0)
    style_server_contrast: float = setting(0.005, "FedStyle: weight of the server's contrast, λ5 (paper)", least=0)

    @property
    def learns_embeddings(self) -> bool:
        return bool(self.style_contrast or self.style_mse or self.style_server_contrast)

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The global styles."""
        return embeddings.no_means(task)

    def first_kept(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The style set that a client held in the round before."""
        return embeddings.no_means(task)

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        return embeddings.sum_specs(task)

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        data, told, held = TrainingAndOnce.of(data), Means(*site.memory), Means(*site.kept)
        done = self.train_with_embeddings(task, data.training, self.client_loss(task, held, told))
        sums = self.class_sums(task, data.once)
        return done._replace(sent=sums.per_example(done.examples), kept=tuple(sums.means().or_else(told)))

    def client_loss(self, task: Task, held: Means, told: Means) -> Any:
        """Eq. 2."""

        def loss(labels: tf.Tensor, vectors: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            total = self.style_ce * task.loss(labels, outputs)
            if self.style_contrast:
                total += self.style_contrast * contrast_of(labels, vectors, held, told)
            if self.style_mse:
                total += self.style_mse * distance_of(labels, vectors, told)
            return total

        return loss

    def server_step(self, task: Task, data: Any, memory: Tensors, sent: Tensors) -> Tensors:
        data, before, collected = TrainingAndOnce.of(data), Means(*memory), embeddings.received_means(sent)
        plain = dataclasses.replace(self, optimizer="sgd", schedule="constant")
        plain.train_with_embeddings(task, data.training, self.server_loss(task, before, collected))
        return list(self.class_sums(task, data.once).means().or_else(before))

    def server_loss(self, task: Task, before: Means, collected: Means) -> Any:
        """Eq. 5."""

        def loss(labels: tf.Tensor, vectors: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            total = self.style_server_ce * task.loss(labels, outputs)
            if self.style_server_contrast:
                total += self.style_server_contrast * contrast_of(labels, vectors, before, collected)
            return total

        return loss

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        if task.server_spec is not None:
            return memory  # as the server step has left it
        return list(embeddings.received_means(sent).or_else(Means(*memory)))


def contrast_of(labels: tf.Tensor, vectors: tf.Tensor, held: Means, told: Means) -> tf.Tensor:
    """Eq. 3 and 6 of a batch's styles, averaged over the classes in it for which there is any style."""
    styles = _styles(labels, vectors, held)
    return embeddings.masked_mean(
        contrast(styles.values, held, told), styles.there * tf.maximum(held.there, told.there)
    )


def contrast(styles: tf.Tensor, held: Means, told: Means) -> tf.Tensor:
    """Eq. 3 for each class i, with m_i = styles[i]: (classes); 0 where the class has no style to compare with.

    Σ_j (e^cos(m_i, m'_j) + e^cos(m_i, ḡ_j)) / (e^cos(m_i, m'_i) + e^cos(m_i, ḡ_i)), j over all classes, i included.
    """
    terms = sum(tf.exp(embeddings.cosines(styles, means.values)) * means.there for means in (held, told))
    return tf.math.divide_no_nan(tf.reduce_sum(terms, axis=1), tf.linalg.diag_part(terms))


def distance_of(labels: tf.Tensor, vectors: tf.Tensor, told: Means) -> tf.Tensor:
    """Eq. 4 of a batch's styles, averaged over the classes in it that have a global style."""
    styles = _styles(labels, vectors, told)
    return embeddings.masked_mean(embeddings.mean_squares(styles.values, told.values), styles.there * told.there)


def _styles(labels: tf.Tensor, vectors: tf.Tensor, like: Means) -> Means:
    """Eq. 1 of a batch."""
    found: ClassSums = embeddings.class_sums(labels, vectors, like.values.shape[0])
    return found.means()
