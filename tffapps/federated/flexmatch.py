"""FlexMatch (Zhang et al. 2021): FixMatch whose classes have thresholds of their own, lower where less is learned.

A class's threshold is tau · M(beta_c), M(x) = x / (2 − x), where beta_c is the number of images whose last sure
prediction was that class, divided by that of the commonest class or by the number of images nobody was sure of, if that
is more (`thresholds.flexible`). A prediction is sure at tau. At least as many images pass as in FixMatch: what is
mended is that the commonest class has all of them.

Deviations: in every round the counts begin with the received model's predictions for all of the client's unlabelled
images, not with none, so that a client carries nothing from round to round. Warm-up, alignment and averaged weights of
`mended_fixmatch` can be added.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated import thresholds
from tffapps.federated.lazy import tf
from tffapps.federated.mended_fixmatch import MendedFixMatch

if TYPE_CHECKING:
    from tffapps.federated.local import Tensors


@dataclasses.dataclass(frozen=True)
class FlexMatch(MendedFixMatch):
    name: ClassVar[str] = "flexmatch"
    needs_status: ClassVar[bool] = True

    def first_status(self, predicted: tf.Tensor) -> Tensors:
        """The last sure prediction for each image; −1: none."""
        labels, mask = self.pseudo_labels(predicted)
        return [tf.where(mask > 0, labels, -1)]

    def next_status(self, known: Any, predicted: tf.Tensor, rows: tf.Tensor) -> Tensors:
        labels, mask = self.pseudo_labels(predicted)
        told = tf.where(mask > 0, labels, tf.gather(known[0], rows))
        return [tf.tensor_scatter_nd_update(known[0], rows[:, tf.newaxis], told)]

    def chosen(self, known: Any, predicted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        labels, mask = thresholds.sure(predicted, thresholds.flexible(known[0], predicted.shape[-1], self.lowest))
        return labels, tf.cast(mask, tf.float32)
