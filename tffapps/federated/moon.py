"""MOON (Li, He and Song 2021, equations 2 and 3): FedAvg whose embeddings are drawn to the global model's.

To the loss of every image comes mu · −log(e^(s_g/tau) / (e^(s_g/tau) + e^(s_p/tau))), where s_g is the cosine between
the image's embedding and the one that the round's global model gives it, s_p that with the model which this client
ended its last round with. Both stay as they are, in inference mode, as in the authors' code: a step needs three forward
passes, and a client keeps one model.

Deviations: embeddings are what the last layer sees; the paper puts a projection of two layers before it. Before its
first round a client's last model is the one the run began with, so that the term is constant in the first round and
that round is FedAvg's. With mu = 0 it is FedAvg.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.embeddings import EPSILON
from tffapps.federated.lazy import np, tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class Moon(Method):
    name: ClassVar[str] = "moon"

    moon_mu: float = setting(1.0, "MOON: weight of the contrastive term (its section 4.1: 1 or 5)", least=0)
    moon_temperature: float = setting(0.5, "MOON: tau (its section 4.1)", above=0)

    @property
    def learns_embeddings(self) -> bool:
        return bool(self.moon_mu)

    def first_kept(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """The client's last model, whole."""
        return [np.asarray(value) for value in weights]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        done = self._train_beside(task, data, list(site.kept)) if self.moon_mu else self.train(task, data)
        return done._replace(kept=tuple(variable.read_value() for variable in task.model.weights))

    def _train_beside(self, task: Task, data: Any, previous: Tensors) -> ClientResult:
        from models.embedding import embedding_of, with_embedding

        model, embedding = with_embedding(task.model), embedding_of(task.model)
        current = [variable.read_value() for variable in task.model.weights]

        def forward(images: tf.Tensor, _: tf.Tensor) -> Any:
            others = [_by(weights, task.model, embedding, images) for weights in (current, previous)]
            vectors, outputs = model(images, training=True)
            return vectors, outputs, others

        def loss(labels: tf.Tensor, triple: Any) -> tf.Tensor:
            vectors, outputs, (positive, negative) = triple
            term = contrast(vectors, positive, negative, self.moon_temperature)
            return task.loss(labels, outputs) + self.moon_mu * term

        return self.train(task, data, forward=forward, loss=loss)


def contrast(vectors: tf.Tensor, positive: tf.Tensor, negative: tf.Tensor, temperature: float) -> tf.Tensor:
    """−log of the share of the positive, row by row: (batch, d) three times -> (batch)."""
    own, *others = (tf.math.l2_normalize(each, axis=-1, epsilon=EPSILON) for each in (vectors, positive, negative))
    near, far = (tf.reduce_sum(own * other, axis=-1) / temperature for other in others)
    return tf.math.softplus(far - near)


def _by(weights: Tensors, model: tf.keras.Model, embedding: tf.keras.Model, images: tf.Tensor) -> tf.Tensor:
    """Embeddings by a model of the same layers with other weights; the layers' own are put back."""
    before = [variable.read_value() for variable in model.weights]
    for variable, value in zip(model.weights, weights):
        variable.assign(value)
    vectors = tf.stop_gradient(embedding(images, training=False))
    for variable, value in zip(model.weights, before):
        variable.assign(value)
    return vectors
