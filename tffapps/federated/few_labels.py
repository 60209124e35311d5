"""What methods with few labels have in common: a client's data, when unlabelled images count, the server's part.

Labels are with the clients, a few each, or with the server alone. A client's `number` says how far training with labels
has come, so that a model that knows nothing yet labels nothing: unlabelled images count

    not at all before `warmup_rounds` rounds, then by a weight that grows to 1 in `ramp_rounds` rounds.

Both may be parts of a round, and are counted in its steps. Where the labels are the server's, it trains on them after
every average (`server_work`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.federated.lazy import tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientResult
    from tffapps.federated.task import Task


class TwoViewData(NamedTuple):
    """A client's data. `rows` number its unlabelled images, so that the passes agree on which is which."""

    # First, because BatchNorm's statistics are re-estimated by it.
    once: Any  # dataset of (images, rows): every unlabelled image once, as it is
    labelled: Any  # dataset of (images, labels), weakly augmented, a batch a step; of no image where the server has all
    unlabelled: Any  # dataset of (weak view, strong view, rows), as many batches
    others: Any  # dataset of (weak view, rows) in another order, as long
    images: Any  # int32: how many are unlabelled
    batch: Any  # int32: unlabelled images a step
    steps: Any  # int32: batches
    number: Any  # int32: of the round, from 1; 0: nobody has trained with labels yet: unlabelled images do not count
    prior: Any  # float32 (classes): class shares among the labelled images
    seed: Any  # int32 (2): for random numbers

    @classmethod
    def spec(cls, batches: Any) -> TwoViewData:
        """What a task's `client_spec` has to be, for batches of this element spec."""
        images, labels = batches
        pairs, number = tf.data.DatasetSpec(batches), tf.TensorSpec([], tf.int32)
        views = tf.data.DatasetSpec((images, images, labels))
        prior, seed = tf.TensorSpec([None], tf.float32), tf.TensorSpec([2], tf.int32)
        return cls(pairs, pairs, views, pairs, number, number, number, number, prior, seed)


@dataclasses.dataclass(frozen=True)
class FewLabels(Method):
    """The base of such methods."""

    all_labelled: ClassVar[bool] = False
    scales_loss: ClassVar[bool] = False  # the training steps of most are their own

    warmup_rounds: float = setting(
        0.0, "few labels: rounds, or a part of one, before unlabelled images count (ours; 0: as published)", least=0
    )
    ramp_rounds: float = setting(
        0.0, "few labels: rounds after that in which their weight grows to 1 (ours; 0: at once)", least=0
    )

    def report_columns(self, task: Task) -> tuple[str, ...]:
        """Unlabelled images seen, those of them that were trained on, and the same by the class they were taken for."""
        classes = range(task.model.output_shape[-1])
        return ("unlabelled", "confident", *(f"confident_{label}" for label in classes))

    def unlabelled_weight(self, data: Any, step: tf.Tensor) -> tf.Tensor:
        """At a step, from 0, of the round."""
        share = step / tf.maximum(tf.cast(data.steps, tf.float32), 1.0)
        since = tf.cast(data.number, tf.float32) - 1.0 + share - self.warmup_rounds
        if not self.ramp_rounds:
            return tf.cast(since >= 0, tf.float32)
        return tf.clip_by_value(since / self.ramp_rounds, 0.0, 1.0)

    def looks_on(self, data: Any) -> tf.Tensor:
        """Whether unlabelled images count for nothing in the whole round."""
        return tf.cast(data.number, tf.float32) <= self.warmup_rounds

    def server_work(self, task: Task, data: Any) -> None:
        train_on_labels(self, task, data)


def train_on_labels(method: Method, task: Task, data: Any) -> None:
    """Supervised training of `task.model` on the server's labelled images (`pseudo_label_plus.GoldData`)."""
    from tffapps.federated import local

    steps, optimizer = method.scheduled(data.steps), method.client_optimizer()
    local.train(
        task.model, data.batches, task.loss, optimizer, method.gradients, steps,
        scaling=method.scaling(task), average=method.average_weights,
    )  # fmt: skip


def reported(seen: tf.Tensor, trained: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """`FewLabels.report_columns` of the number of images seen and of those trained on by class (classes)."""
    return (seen, tf.reduce_sum(trained), *tf.unstack(trained))


def counted(done: ClientResult) -> ClientResult:
    """A client that found nothing to train on takes part with what it was given: as one example."""
    return done._replace(examples=tf.maximum(done.examples, 1.0))
