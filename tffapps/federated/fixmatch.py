"""FixMatch at the clients (Sohn et al. 2020; FSSFL in the thesis): a few labelled images, many unlabelled ones.

A step's loss is the cross-entropy of a labelled batch plus lambda_u times that of an unlabelled one: the prediction for
a weakly augmented view, where its probability reaches tau, is the label of a strongly augmented view of the same image
(Sohn et al., equations 3 and 4; images below tau count as zeros in the mean). With lambda_u = 0 it is supervised
training on the labelled images.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tffapps.federated.lazy import tf
from tffapps.federated.method import Method
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task


class PartlyLabelledData(NamedTuple):
    """A client's data: one epoch ends with the labelled images; the unlabelled dataset must last as long."""

    labelled: Any  # dataset of (images, labels), weakly augmented
    unlabelled: Any  # dataset of (weak view, strong view)
    steps: Any  # int32: batches of `labelled`

    @classmethod
    def spec(cls, batches: Any) -> PartlyLabelledData:
        images, _ = batches
        pairs = tf.data.DatasetSpec((images, images))
        return cls(tf.data.DatasetSpec(batches), pairs, tf.TensorSpec([], tf.int32))


@dataclasses.dataclass(frozen=True)
class FixMatch(Method):
    name: ClassVar[str] = "fssfl"
    all_labelled: ClassVar[bool] = False
    scales_loss: ClassVar[bool] = False

    tau: float = setting(0.8, "lowest probability of a pseudo-label (thesis: table 0.8, text 0.7)", least=0)
    lambda_u: float = setting(1.0, "weight of the unlabelled loss (thesis)", least=0)

    def report_columns(self, task: Task) -> tuple[str, ...]:
        return ("unlabelled", "confident")

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from tffapps.federated import local
        from tffapps.federated.averaged import Averaged

        model, loss = task.model, task.loss
        variables = model.trainable_variables
        optimizer, steps = self.client_optimizer(), self.scheduled(data.steps)
        averaged = Averaged(model, self.average_weights)

        @tf.function
        def run(batches: tf.data.Dataset) -> tuple[tf.Tensor, ...]:
            state = optimizer.start(variables)
            averaged.start()
            examples, loss_sum, seen, confident, number = tf.unstack(tf.zeros([5]))
            for (images, labels), (weak, strong) in iter(batches):
                pseudo, mask = self.pseudo_labels(model(weak, training=False))
                with tf.GradientTape() as tape:
                    # One pass over both, so that BatchNorm sees one batch.
                    outputs = model(tf.concat([images, strong], axis=0), training=True)
                    count = tf.shape(labels)[0]
                    supervised = tf.reduce_mean(loss(labels, outputs[:count]))
                    unsupervised = tf.reduce_mean(mask * loss(pseudo, outputs[count:]))
                    total = supervised + self.lambda_u * unsupervised
                gradients = tape.gradient(total, variables)
                state = optimizer.step(state, variables, gradients, local.cosine(number, steps))
                averaged.step(number)
                number += 1.0
                size = tf.cast(count, tf.float32)
                examples += size
                loss_sum += size * total
                seen += tf.cast(tf.shape(weak)[0], tf.float32)
                confident += tf.reduce_sum(mask)
            averaged.finish()
            return examples, tf.math.divide_no_nan(loss_sum, examples), seen, confident

        examples, mean, seen, confident = run(tf.data.Dataset.zip((data.labelled, data.unlabelled)))
        return local.ClientResult(examples + seen, mean, (seen, confident))

    def pseudo_labels(self, probabilities: tf.Tensor, lowest: float | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Labels and 1.0 where the model is sure enough of them (default: tau), from predictions of the weak view."""
        lowest = self.tau if lowest is None else lowest
        labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        return labels, tf.cast(tf.reduce_max(probabilities, axis=-1) >= lowest, tf.float32)
