"""FedAvg of denoisers (FedSDA, algorithm 1): what differs is the forward pass, which first adds noise.

A client's data are vectors and a random key. In every step each vector gets a time and noise of its own (Eq. 6), and
the model is asked for that noise (Eq. 8), told the time and, as the condition, the client's place in the federation.
The noise is drawn inside the training and not in the data: a pipeline that draws takes longer to start than a round of
such a small model takes to play.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.federated.lazy import tf
from tffapps.federated.method import Method

if TYPE_CHECKING:
    from models.ddpm import Schedule
    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task


class NoiselessData(NamedTuple):
    batches: Any  # dataset of (vectors (n, d), anything of that length)
    key: Any  # int32 (2)
    rate: Any  # float32: the share of the learning rate in this round

    @classmethod
    def spec(cls, dimensions: int) -> NoiselessData:
        element = tf.TensorSpec([None, dimensions]), tf.TensorSpec([None], tf.int32)
        return cls(tf.data.DatasetSpec(element), tf.TensorSpec([2], tf.int32), tf.TensorSpec([]))


@dataclasses.dataclass(frozen=True)
class Denoising(Method):
    name: ClassVar[str] = "denoising"

    schedule_steps: int = 1000  # T
    equal: bool = False  # every client counts the same in the mean; else by its examples

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from models.ddpm import scaled
        from tffapps.federated import local
        from tffapps.federated.optimizers import Scaled

        schedule = scaled(self.schedule_steps)

        def forward(vectors: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
            noisy, times, noise = noised(schedule, vectors, data.key, step)
            clients = tf.fill(tf.shape(times), site.position)
            return noise - task.model([noisy, times, clients], training=True)

        optimizer = Scaled(self.client_optimizer(), data.rate)
        done = local.train(task.model, data.batches, task.loss, optimizer, self.gradients, forward=forward)
        return done._replace(examples=tf.sign(done.examples)) if self.equal else done


def noised(
    schedule: Schedule, vectors: tf.Tensor, key: tf.Tensor, step: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """(x_t, t, ε) of each vector (n, d), a function of the key and the step."""
    step_key = tf.random.experimental.stateless_fold_in(key, step, alg="philox")
    first, second = tf.unstack(tf.random.experimental.stateless_split(step_key, 2, alg="philox"))
    count = tf.shape(vectors)[:1]
    times = tf.random.stateless_uniform(count, first, 1, schedule.steps + 1, tf.int32, alg="philox")
    noise = tf.random.stateless_normal(tf.shape(vectors), second, alg="philox")
    return schedule.noised(vectors, times, noise), times, noise


def denoising_task(model: tf.keras.Model, dimensions: int) -> Task:
    """Eq. 8: what the forward pass gives is already the error of the noise."""
    from tffapps.federated.task import Task

    return Task(model, NoiselessData.spec(dimensions), lambda _, error: tf.reduce_mean(error**2, axis=1))
