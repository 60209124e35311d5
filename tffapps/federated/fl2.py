"""(FL)² (Lee, Le, Shin and Lee, NeurIPS 2024): labels at the server alone; clients adapt to what they have learned.

Client-specific adaptive thresholds: before a client trains, the received model predicts its images. With t the mean
highest probability and m the mean prediction, a label of class c is used from t · m_c / max m on, and stays for the
round.

Sharpness-aware consistency: of images with a probability of 0.95 or more, and of these alone, each step takes the
gradient g of their loss, moves the weights by ρ · T²g / ‖Tg‖, T = |w| + 0.01 (adaptive, T = 1 for vectors), and adds
the gradient, there, of the divergence of the moved model's predictions for strong views from the unmoved one's.

Learning-status-aware aggregation: a client counts by 1 − t, so that those which have learned less are heard more.

After the average the server trains on its labelled images, as in SemiFL; BatchNorm's statistics are `--reestimate`'s.

Deviations: the server trains after the average; gradients are not clipped. With ρ 0 there is no consistency term, with
status 0 clients count the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated import thresholds
from tffapps.federated.few_labels import FewLabels, counted, reported
from tffapps.federated.lazy import tf
from tffapps.federated.pseudo_label import per_class, predict
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult, Tensors
    from tffapps.federated.task import Task

_ETA = 0.01  # of adaptive steps; the authors' code
_LEAST_WEIGHT = 1e-6  # of a client that is sure of everything


@dataclasses.dataclass(frozen=True)
class FL2(FewLabels):
    name: ClassVar[str] = "fl2"
    weighs_clients: ClassVar[bool] = True
    refused_aggregators: ClassVar[Mapping[str, str]] = {"dp": "whose clients would all count the same"}

    flfl_high: float = setting(0.95, "(FL)²: lowest probability for the consistency term (the authors' code)", least=0)
    flfl_rho: float = setting(0.1, "(FL)²: how far the weights are moved for it (the authors' code)", least=0)
    flfl_status: float = setting(1.0, "(FL)²: power of 1 − threshold that a client counts by; 0: all the same", least=0)

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        probabilities = predict(task.model, data.once, data.images)
        threshold = thresholds.confidence_of(probabilities)
        labels, sure = thresholds.sure(
            probabilities, thresholds.self_adaptive(threshold, thresholds.mean_of(probabilities))
        )
        sure &= tf.logical_not(self.looks_on(data))
        high = tf.reduce_max(probabilities, axis=-1) >= self.flfl_high
        done = counted(self._train(task, data, labels, sure, high))
        seen = tf.reduce_sum(tf.cast(tf.reduce_any(probabilities > 0, axis=-1), tf.float32))
        return done._replace(
            extras=reported(seen, per_class(labels, sure, probabilities)), weight=self.weight(threshold)
        )

    def weight(self, threshold: tf.Tensor) -> tf.Tensor:
        """What a client counts by."""
        return tf.maximum(1.0 - threshold, _LEAST_WEIGHT) ** self.flfl_status

    def _train(self, task: Task, data: Any, labels: tf.Tensor, sure: tf.Tensor, high: tf.Tensor) -> ClientResult:
        from tffapps.federated import local
        from tffapps.federated.averaged import Averaged
        from tffapps.federated.perturbed import beside

        model = task.model
        variables, others = model.trainable_variables, model.non_trainable_variables
        optimizer, averaged = self.client_optimizer(), Averaged(model, self.average_weights)
        share = tf.reduce_mean(tf.cast(sure, tf.float32))
        steps = self.scheduled(tf.cast(tf.math.ceil(share * tf.cast(data.steps, tf.float32)), tf.int32))
        chosen = data.unlabelled.unbatch().filter(lambda weak, strong, row: sure[row])
        batches = chosen.map(lambda weak, strong, row: (strong, row)).batch(tf.cast(data.batch, tf.int64))

        def consistency(strong: tf.Tensor, own: tf.Tensor, mask: tf.Tensor) -> Tensors:
            before = [variable.read_value() for variable in others]
            with tf.GradientTape() as tape:
                outputs = model(strong, training=True)
                lost = tf.reduce_mean(mask * task.loss(own, outputs))
            offsets = adaptive_offsets(self.flfl_rho, tape.gradient(lost, variables), variables)
            target = tf.stop_gradient(outputs)

            def moved() -> Tensors:
                with tf.GradientTape() as tape:
                    diverged = tf.reduce_mean(mask * divergence(target, model(strong, training=True)))
                return tape.gradient(diverged, variables)

            gradients = beside(variables, offsets, moved)
            for variable, value in zip(others, before):  # of BatchNorm: from the pass at the weights alone
                variable.assign(value)
            return gradients

        @tf.function
        def run(batches: tf.data.Dataset) -> tuple[tf.Tensor, ...]:
            state = optimizer.start(variables)
            averaged.start()
            examples, loss_sum, number = tf.unstack(tf.zeros([3]))
            for strong, rows in iter(batches):
                own, mask = tf.gather(labels, rows), tf.cast(tf.gather(high, rows), tf.float32)
                weight = self.unlabelled_weight(data, number)
                more = consistency(strong, own, mask) if self.flfl_rho else [0.0 for _ in variables]
                with tf.GradientTape() as tape:
                    mean = tf.reduce_mean(task.loss(own, model(strong, training=True)))
                gradients = [weight * (g + extra) for g, extra in zip(tape.gradient(mean, variables), more)]
                state = optimizer.step(state, variables, gradients, local.cosine(number, steps))
                averaged.step(number)
                number += 1.0
                count = tf.cast(tf.shape(rows)[0], tf.float32)
                examples += count
                loss_sum += count * mean
            averaged.finish()
            return examples, tf.math.divide_no_nan(loss_sum, examples)

        examples, mean_loss = run(batches)
        return local.ClientResult(examples, mean_loss)


def adaptive_offsets(rho: float, gradients: Tensors, variables: Any) -> Tensors:
    """ρ · T²g / ‖Tg‖ (Kwon et al. 2021), T = |w| + η, 1 for biases and the like; zeros without a gradient."""
    scales = [tf.abs(v) + _ETA if len(v.shape) > 1 else tf.ones_like(v) for v in variables]
    scaled = [scale * gradient for scale, gradient in zip(scales, gradients)]
    length = tf.math.divide_no_nan(rho, tf.linalg.global_norm(scaled))
    return [length * scale * part for scale, part in zip(scales, scaled)]


def divergence(target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Kullback and Leibler's, of each row of probabilities from its target."""
    return tf.keras.losses.kl_divergence(target, outputs)
