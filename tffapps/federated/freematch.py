"""FreeMatch (Wang et al. 2023): FixMatch whose thresholds follow what the network is sure of, with no tau to choose.

The common threshold is an average, over batches, of the mean highest probability; a class's is that times
its mean probability divided by the largest. To the loss comes w_f times a fairness term
that spreads the predictions for strong views over the classes (`thresholds.fairness`).

Deviations: in every round the averages begin with the received model's predictions for all of the client's unlabelled
images, not with 1/classes: they are the client's own, and it carries nothing from round to round. Warm-up, alignment
and averaged weights of `mended_fixmatch` can be added; tau has no effect.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated import thresholds
from tffapps.federated.lazy import tf
from tffapps.federated.mended_fixmatch import MendedFixMatch
from tffapps.settings import setting

if TYPE_CHECKING:
    from tffapps.federated.local import Tensors


@dataclasses.dataclass(frozen=True)
class FreeMatch(MendedFixMatch):
    name: ClassVar[str] = "freematch"
    needs_status: ClassVar[bool] = True

    free_decay: float = setting(0.999, "FreeMatch: what its averages keep at a batch (the paper's)", least=0, below=1)
    fairness: float = setting(0.01, "FreeMatch: weight of its fairness term (the authors' code)", least=0)

    def first_status(self, predicted: tf.Tensor) -> Tensors:
        """The mean highest probability, the mean prediction, and the shares of the likeliest classes."""
        return [thresholds.confidence_of(predicted), thresholds.mean_of(predicted), _shares(predicted)]

    def next_status(self, known: Any, predicted: tf.Tensor, rows: tf.Tensor) -> Tensors:
        return [thresholds.moved(old, new, self.free_decay) for old, new in zip(known, self.first_status(predicted))]

    def chosen(self, known: Any, predicted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        labels, mask = thresholds.sure(predicted, thresholds.self_adaptive(known[0], known[1]))
        return labels, tf.cast(mask, tf.float32)

    def regularised(self, known: Any, outputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor | float:
        return self.fairness * thresholds.fairness(known[1], known[2], outputs, mask) if self.fairness else 0.0


def _shares(predicted: tf.Tensor) -> tf.Tensor:
    readable = tf.cast(tf.reduce_max(predicted, axis=-1, keepdims=True) > 0, tf.float32)
    return thresholds.mean_of(readable * tf.one_hot(tf.argmax(predicted, axis=-1), predicted.shape[-1]))
