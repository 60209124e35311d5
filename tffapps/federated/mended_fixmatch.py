"""FixMatch (Sohn et al. 2020) with what keeps it from believing its own first mistakes; every part has its neutral
value.

As published nearly all images pass a threshold of 0.8 as soon as a network fits its few labelled images, most of them
as the commonest class, and that is what it learns. Beside the warm-up and the ramp (`few_labels`):

  - predictions for weak views are scaled by class so that their mean is the labelled images' class
    shares (distribution alignment, Berthelot et al. 2020)                                  --align, 0: off
  - an average of the weights along the client's steps labels, not the weights themselves
    (Tarvainen and Valpola 2017)                                                            --teacher-decay, 0: off

The mean prediction that alignment goes by begins in every round with that of the received model for all of the client's
unlabelled images, and then follows the batches; the paper averages over the last 128 batches. The averaged weights
begin with the received ones; what is sent are the client's own. With neutral values a step is `fixmatch.FixMatch`'s.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated import thresholds
from tffapps.federated.few_labels import FewLabels, reported
from tffapps.federated.fixmatch import FixMatch
from tffapps.federated.lazy import tf
from tffapps.federated.pseudo_label import predict
from tffapps.settings import CHANGED, setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class MendedFixMatch(FewLabels, FixMatch):
    name: ClassVar[str] = "fixmatch"
    needs_status: ClassVar[bool] = False  # whether thresholds go by the client's predictions

    align: float = setting(0.0, "few labels: power of distribution alignment (Berthelot et al. 2020: 1)", least=0)
    align_decay: float = setting(0.9, "few labels: what the mean prediction keeps at a batch (ours)", least=0, below=1)
    teacher_decay: float = setting(
        0.0, "few labels: what the averaged weights that label keep at a step; 0: the weights", least=0, below=1
    )

    mended_tau: float = setting(
        0.0, "few labels: a threshold of its own; 0: --tau, which fssfl has too", least=0, most=1, in_key=CHANGED
    )
    mended_weight: float = setting(
        0.0, "few labels: a weight of the unlabelled loss of its own; 0: --lambda-u", least=0, in_key=CHANGED
    )

    @property
    def lowest(self) -> float:
        """Probability of a pseudo-label."""
        return self.mended_tau or self.tau

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from tffapps.federated import local
        from tffapps.federated.averaged import Averaged

        model, loss, classes = task.model, task.loss, task.model.output_shape[-1]
        variables = model.trainable_variables
        optimizer, steps = self.client_optimizer(), self.scheduled(data.steps)
        averaged = Averaged(model, self.average_weights)
        first = self._first_predictions(task, data)
        known = tuple(self.first_status(first))

        @tf.function
        def run(batches: tf.data.Dataset, mean: tf.Tensor, known: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            state = optimizer.start(variables)
            averaged.start()
            teacher = self._teacher(model)
            examples, loss_sum, seen, number = tf.unstack(tf.zeros([4]))
            trained = tf.zeros([classes])
            for (images, labels), (weak, strong, rows) in iter(batches):
                predicted = self._predicted(model, teacher, weak)
                if self.align:
                    mean = thresholds.moved(mean, tf.reduce_mean(predicted, axis=0), self.align_decay)
                    predicted = thresholds.aligned(predicted, data.prior, mean, self.align)
                known = tuple(self.next_status(known, predicted, rows))
                pseudo, mask = self.chosen(known, predicted)
                weight = self.unlabelled_weight(data, number)
                with tf.GradientTape() as tape:
                    # One pass over both, so that BatchNorm sees one batch.
                    outputs = model(tf.concat([images, strong], axis=0), training=True)
                    count = tf.shape(labels)[0]
                    supervised = tf.reduce_mean(loss(labels, outputs[:count]))
                    supervised = tf.where(count > 0, supervised, 0.0)
                    unsupervised = tf.reduce_mean(mask * loss(pseudo, outputs[count:]))
                    total = supervised + weight * (self.mended_weight or self.lambda_u) * unsupervised
                    total += weight * self.regularised(known, outputs[count:], mask)
                gradients = tape.gradient(total, variables)
                state = optimizer.step(state, variables, gradients, local.cosine(number, steps))
                teacher = self._next_teacher(model, teacher)
                averaged.step(number)
                number += 1.0
                known_count, unknown_count = (tf.cast(tf.shape(each)[0], tf.float32) for each in (labels, rows))
                examples += known_count
                # Of an unlabelled batch alone, it is that of its images.
                loss_sum += tf.where(count > 0, known_count, unknown_count) * total
                seen += unknown_count
                used = mask * tf.cast(weight > 0, tf.float32)
                trained += tf.reduce_sum(used[:, tf.newaxis] * tf.one_hot(pseudo, classes), axis=0)
            mean_loss = tf.math.divide_no_nan(loss_sum, tf.where(examples > 0, examples, seen))
            averaged.finish()
            return examples, mean_loss, seen, trained

        batches = tf.data.Dataset.zip((data.labelled, data.unlabelled))
        some = tf.reduce_any([not_empty(data.labelled), tf.logical_not(self.looks_on(data))])
        batches = batches.take(tf.where(some, tf.constant(-1, tf.int64), tf.constant(0, tf.int64)))
        examples, mean_loss, seen, trained = run(batches, thresholds.mean_of(first), known)
        return local.ClientResult(tf.maximum(examples + seen, 1.0), mean_loss, reported(seen, trained))

    # What its relatives do otherwise.

    def first_status(self, predicted: tf.Tensor) -> Tensors:
        """What thresholds go by, as it is when a round begins; of predictions (images, classes) for all images."""
        return []

    def next_status(self, known: Any, predicted: tf.Tensor, rows: tf.Tensor) -> Tensors:
        """The same after a batch of predictions for these images."""
        return []

    def chosen(self, known: Any, predicted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Labels, and 1.0 where they are sure enough."""
        return self.pseudo_labels(predicted, self.lowest)

    def regularised(self, known: Any, outputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor | float:
        """What is added to the loss, of the predictions for strong views."""
        return 0.0

    def _first_predictions(self, task: Task, data: Any) -> tf.Tensor:
        """(images, classes) by the received model; nothing where nobody asks."""
        if not (self.align or self.needs_status):
            return tf.ones([1, task.model.output_shape[-1]])
        return predict(task.model, data.once, data.images)

    def _teacher(self, model: tf.keras.Model) -> Tensors:
        return [variable.read_value() for variable in model.weights] if self.teacher_decay else []

    def _next_teacher(self, model: tf.keras.Model, teacher: Tensors) -> Tensors:
        return [thresholds.moved(old, new, self.teacher_decay) for old, new in zip(teacher, model.weights)]

    def _predicted(self, model: tf.keras.Model, teacher: Tensors, weak: tf.Tensor) -> tf.Tensor:
        from tffapps.federated.perturbed import put_in

        if not self.teacher_decay:
            return model(weak, training=False)
        return put_in(model.weights, teacher, lambda: model(weak, training=False))


def not_empty(labelled: tf.data.Dataset) -> tf.Tensor:
    """Whether the first batch has an image."""
    first = labelled.take(1).map(lambda images, labels: tf.shape(labels)[0])
    return first.reduce(0, lambda total, count: total + count) > 0
