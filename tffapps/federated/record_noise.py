"""DP-SGD at a client (Abadi et al. 2016, algorithm 1): differential privacy of single images, from the server too.

A step's gradient is (Σᵢ gᵢ · min(1, C / ‖gᵢ‖) + N(0, z² C² I)) / n over the n images of its batch, gᵢ the gradient of
image i alone. All that leaves the client is made of such gradients; what a method or an optimiser does with them costs
nothing more. The client's loss is withheld.

Accounting: batches are not drawn by chance, each image is in exactly one batch of an epoch, and who knows the seed
knows in which. So nothing is counted as hidden by sampling: an epoch is one Gaussian release of noise multiplier z for
every image, whatever the batches (two if the method asks for two gradients of each batch). Neighbours are datasets of
which one has an image that adds nothing in the other's place, so that the sizes of batches, and the number of images,
are taken as known. That is an upper bound for shuffled batches (Chua et al. 2024), and holds against the coordinator.

Noise is seeded by run, round and client where a federation is simulated, so that a run can be repeated: such noise
hides nothing from who knows the seed. At sites it is drawn by TensorFlow's generator, seeded by the system.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from tffapps.errors import UserError
from tffapps.federated import per_example

if TYPE_CHECKING:
    from tffapps.federated.cohort import Client
    from tffapps.federated.local import Private
    from tffapps.federated.method import Method
    from tffapps.federated.task import Task

_NOISE = 2  # a stream of its own: beside those of `cohort.stream` and `sampling`


class Seeded(NamedTuple):
    """A client's data: what its method asks for, and the seed of its noise in this round."""

    training: Any
    noise_seed: Any  # int32 (2)

    @classmethod
    def spec(cls, training: Any) -> Seeded:
        return cls(training, tf.TensorSpec([2], tf.int32))


def seed_of(seed: int, number: int, position: int) -> np.ndarray:
    """Of the noise of the client at a position, in a round of a run."""
    source = np.random.SeedSequence([seed, number, position], spawn_key=(_NOISE,))
    return source.generate_state(2).astype(np.int32)


def seeded(clients: Sequence[Client], seed: int) -> list[Client]:
    """The same clients, whose data holds the seed of their noise: for a task of `Seeded` data."""

    def of(client: Client, position: int) -> Client:
        return dataclasses.replace(
            client, batches=lambda number: Seeded(client.batches(number), seed_of(seed, number, position))
        )

    return [of(client, position) for position, client in enumerate(clients)]


def check(task: Task, method: Method) -> None:
    """Refuses what DP-SGD does not cover."""
    if not method.record_passes:
        raise UserError(
            f"--record-dp: it does not cover what clients of {method.name} send or train with; choose another method"
        )
    if task.loss_by_counts is not None:
        raise UserError(
            "--record-dp: this --loss goes by numbers of images, and one image changes that of all others; use"
            " --loss cross-entropy or focal"
        )
    per_example.check(task.model)


def gradients(
    model: tf.keras.Model, loss: Callable[..., tf.Tensor], images: tf.Tensor, labels: tf.Tensor, private: Private,
    place: Sequence[Any],
) -> list[tf.Tensor]:  # fmt: skip
    """Of a batch; `place` tells it from others that are noised with the same seed."""
    sums = per_example.clipped_sum(model, loss, images, labels, private.clip)
    count = tf.cast(tf.shape(labels)[0], tf.float32)
    scale = private.noise * private.clip
    return [(value + scale * normal(value, private.seed, (*place, index))) / count for index, value in enumerate(sums)]


def normal(like: tf.Tensor, seed: Any, place: Sequence[Any]) -> tf.Tensor:
    """Standard normal numbers."""
    if seed is None:
        # The raw operation: another one would go by tf.random.set_seed, if somebody has called that.
        return tf.raw_ops.RandomStandardNormal(shape=tf.shape(like), dtype=tf.float32, seed=0, seed2=0)
    for number in place:
        seed = tf.random.experimental.stateless_fold_in(seed, number, alg="philox")
    return tf.random.stateless_normal(tf.shape(like), seed, alg="philox")
