"""Losses and sampling for classes of unequal size, beside any method: settings, and what clients are given for them.

What needs the numbers of images of each class gets them with the client's data: the client's own, or, for logit
adjustment, those of the federation. Only these leave a client, one sum a class (`docs/methods.md`).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from tffapps.federated.lazy import np, tf
from tffapps.settings import CHANGED, setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.task import Task

LOSSES = ("cross-entropy", "balanced", "focal", "logit-adjusted", "fedlc")
_OF_OWN_COUNTS, _OF_ALL_COUNTS = ("balanced", "fedlc"), ("logit-adjusted",)


@dataclasses.dataclass(frozen=True)
class ClassBalance:
    """The defaults are what every method does without it: a trial lists it where they are not what is asked for."""

    loss: str = setting("cross-entropy", "loss of a classifier (docs/methods.md)", choices=LOSSES, in_key=CHANGED)
    focal_gamma: float = setting(2.0, "focal: exponent of 1 − p (Lin et al. 2017)", least=0, in_key=CHANGED)
    loss_tau: float = setting(
        1.0,
        "logit-adjusted (Menon et al. 2021: 1), fedlc (our choice): size of the shift; 0: cross-entropy",
        least=0,
        in_key=CHANGED,
    )
    sampling: str = setting(
        "plain", "balanced: a client draws its classes equally often", choices=("plain", "balanced"), in_key=CHANGED
    )

    @property
    def counts_needed(self) -> bool:
        return self.loss in (*_OF_OWN_COUNTS, *_OF_ALL_COUNTS)

    def counts_for(self, own: np.ndarray, of_all: np.ndarray) -> np.ndarray:
        """(classes): what a client is given of its own numbers of images and of those of all clients."""
        return np.asarray(of_all if self.loss in _OF_ALL_COUNTS else own, np.float32)

    def task(self, task: Task) -> Task:
        """The same with this loss; a client's data is then `WithClassCounts` where these are needed."""
        from tffapps.federated import class_losses

        if not self.counts_needed:
            loss = class_losses.focal(self.focal_gamma) if self.loss == "focal" else task.loss
            return dataclasses.replace(task, loss=loss)
        made = {
            "balanced": class_losses.balanced(task.loss),
            "logit-adjusted": class_losses.logit_adjusted(self.loss_tau),
            "fedlc": class_losses.fedlc(self.loss_tau),
        }[self.loss]
        counts = tf.TensorSpec([task.model.output_shape[-1]], tf.float32)
        return dataclasses.replace(task, loss_by_counts=made, client_spec=WithClassCounts(task.client_spec, counts))


PLAIN = ClassBalance()


class WithClassCounts(NamedTuple):
    """A client's data: what its method asks for, and the numbers of images of each class that the loss goes by."""

    training: Any
    counts: Any  # float32 (classes)


def drawn_equally(codes: Sequence[int] | np.ndarray, count: int, seed: int) -> np.ndarray:
    """`count` places in `codes`, with replacement, so that every class that is there is as likely as any other."""
    codes = np.asarray(codes)
    _, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    shares = 1 / counts[inverse] / len(counts)
    return np.random.default_rng(seed).choice(len(codes), count, p=shares / shares.sum())
