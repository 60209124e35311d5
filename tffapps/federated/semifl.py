"""SemiFL (Diao, Ding and Tarokh 2022): labels at the server alone; it and the clients train in turn.

In a round the received model labels a client's images once, before it trains. Those it gives a probability of tau or
more are the fix set. A step has a batch of it and one of all images, whatever their probability (the mix set), and

    loss = H(strong view, label) + weight · (l · H(mixed, label) + (1 − l) · H(mixed, the other's label)),
    mixed = l · weak view + (1 − l) · weak view of the other,    l from Beta(a, a)

Labels do not change while a client trains, so that it does not follow its own drift. After the average the server
trains on its labelled images (alternate training). BatchNorm's statistics are to be those of the data under the new
model (static BatchNorm): that is `--reestimate`.

Deviations: the server trains after the average, not before the clients, so that a run begins with a round of the
server's alone, or with a model that it has trained; an epoch's mix set is all images in another order, not a draw with
replacement; clients count by the images they trained on (the authors' code: equally), one that is sure of nothing by 1
with the model it was given; gradients are not clipped; above a cut it is stored activations that are mixed. With weight
0 and tau 0 a client is FedAvg's on strong views with the received model's labels.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.few_labels import FewLabels, counted, reported
from tffapps.federated.lazy import tf
from tffapps.federated.pseudo_label import per_class, predict
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class SemiFL(FewLabels):
    name: ClassVar[str] = "semifl"

    semifl_tau: float = setting(0.95, "SemiFL: lowest probability of the fix set (the authors' code)", least=0)
    semifl_mix: float = setting(1.0, "SemiFL: weight of the mixed loss (the authors' code)", least=0)
    semifl_beta: float = setting(0.75, "SemiFL: a of Beta(a, a) (the authors' code)", above=0)

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from tffapps.federated import local

        probabilities = predict(task.model, data.once, data.images)
        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        highest = tf.reduce_max(probabilities, axis=-1)  # 0 of a file that cannot be read
        fixed = (highest >= self.semifl_tau) & (highest > 0) & tf.logical_not(self.looks_on(data))
        chosen = data.unlabelled.unbatch().filter(lambda weak, strong, row: fixed[row])
        size = tf.cast(data.batch, tf.int64)
        pairs = tf.data.Dataset.zip((chosen.batch(size), data.others.unbatch().batch(size)))
        count = tf.reduce_sum(tf.cast(fixed, tf.int32))
        # As `local.train` wants them: what a step sees, and labels. The last batch of the fix set may be the smaller.
        batches = pairs.map(_matched)

        def forward(given: Any, step: tf.Tensor) -> Any:
            (weak, strong), others, other_rows = given
            share = beta(self.semifl_beta, data.seed, step)
            mixed = share * weak + (1.0 - share) * others
            # One pass over both, so that BatchNorm sees one batch.
            inputs = tf.concat([strong, mixed], axis=0) if self.semifl_mix else strong
            weight = self.unlabelled_weight(data, tf.cast(step, tf.float32))
            return task.model(inputs, training=True), tf.gather(labels, other_rows), share, weight

        def loss(rows: tf.Tensor, given: Any) -> tf.Tensor:
            outputs, others, share, weight = given
            own, number = tf.gather(labels, rows), tf.shape(rows)[0]
            each = task.loss(own, outputs[:number])
            if self.semifl_mix:
                each += self.semifl_mix * mixed_loss(task.loss, own, others, outputs[number:], share)
            return weight * each

        # The steps of a schedule: as many as the fix set has in the round's epochs.
        steps = self.scheduled(_steps(data, count))
        optimizer, rule = self.client_optimizer(), self.gradients
        done = counted(
            local.train(
                task.model, batches, loss, optimizer, rule, steps, forward=forward, average=self.average_weights
            )
        )
        seen = tf.cast(tf.reduce_sum(tf.cast(highest > 0, tf.int32)), tf.float32)
        return done._replace(extras=reported(seen, per_class(labels, fixed, probabilities)))


def mixed_loss(loss: Any, own: tf.Tensor, others: tf.Tensor, outputs: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Of each mixed image: by the label of the one, which has `share` of it, and by that of the other."""
    return share * loss(own, outputs) + (1.0 - share) * loss(others, outputs)


def beta(a: float, seed: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """A number from Beta(a, a), the same for the same seed and step."""
    here = tf.random.experimental.stateless_fold_in(seed, tf.cast(step, tf.int32), alg="philox")
    first, second = tf.unstack(tf.random.stateless_gamma([2], here, alpha=a, dtype=tf.float32))
    return tf.math.divide_no_nan(first, first + second)


def _matched(fix: Any, others: Any) -> Any:
    weak, strong, rows = fix
    images, other_rows = others
    count = tf.shape(rows)[0]
    return ((weak, strong), images[:count], other_rows[:count]), rows


def _steps(data: Any, count: tf.Tensor) -> tf.Tensor:
    """Batches of `count` of the client's images in a round in which all of them take `data.steps`."""
    share = tf.cast(count, tf.float32) / tf.maximum(tf.cast(data.images, tf.float32), 1.0)
    return tf.cast(tf.math.ceil(share * tf.cast(data.steps, tf.float32)), tf.int32)
