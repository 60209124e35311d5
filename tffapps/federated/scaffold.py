"""SCAFFOLD (Karimireddy et al. 2020, algorithm 1): FedAvg whose steps are corrected for a client's drift.

Each client keeps a control variate c_i, its mean gradient of the round before, and the server their mean c; a local
step uses gradient − c_i + c, so that clients with other data than the rest no longer pull towards their own optimum.

c_i becomes the mean of the gradients of this round's steps. With plain SGD that is the paper's option II,
c_i − c + (x − y_i)/(steps · rate), and it is defined for momentum and Adam too. Deviations: means are weighted by
examples, as those of the updates are; the server's rate is 1; a client that was away stays in c with the weight of its
examples. Twice FedAvg's bytes both ways. In its first round, and with correction 0, it is FedAvg.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.lazy import np, tf
from tffapps.federated.method import Method
from tffapps.federated.variates import NOT_YET, Share, scalar, zeros_like_trained
from tffapps.settings import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tffapps.federated.local import ClientContext, ClientResult, LossAndGradients, Tensors
    from tffapps.federated.task import Task


@dataclasses.dataclass(frozen=True)
class Scaffold(Method):
    name: ClassVar[str] = "scaffold"
    record_passes: ClassVar[int] = 1

    scaffold_correction: float = setting(1.0, "SCAFFOLD: share of the correction c − c_i; 1: the paper's", least=0)

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """c, and the examples of all clients that it is the mean of."""
        return [*zeros_like_trained(task), scalar(0)]

    def first_kept(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        return [*zeros_like_trained(task), scalar(NOT_YET)]

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        """How c_i changes, and whether it is the client's first."""
        shapes = [variable.shape for variable in task.model.trainable_variables]
        return [tf.TensorSpec(shape, tf.float32) for shape in (*shapes, [])]

    def gathered_specs(self, task: Task) -> list[tf.TensorSpec]:
        """A client's number of examples, which its report holds as well."""
        return [tf.TensorSpec([], tf.float32)]

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        from tffapps.federated.portable import scratch_like

        *own, first_time = site.kept
        *mean, _ = site.memory
        offsets = [self.scaffold_correction * (c - c_i) for c, c_i in zip(mean, own)]
        sums = [scratch_like(variable) for variable in task.model.trainable_variables]
        for room in sums:
            room.fill_with_zeros()

        def rule(
            loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
        ) -> tuple[tf.Tensor, Tensors]:
            loss, gradients = loss_and_gradients()
            for room, gradient in zip(sums, gradients):
                room.assign(room.read() + gradient)
            return loss, [gradient + offset for gradient, offset in zip(gradients, offsets)]

        done = self.train(task, data, rule)
        new = [tf.math.divide_no_nan(room.read(), done.steps) for room in sums]
        changes = [after - before for after, before in zip(new, own)]
        return done._replace(
            sent=(*changes, first_time), gathered=(done.examples,), kept=(*new, tf.zeros_like(first_time))
        )

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        *mean, total = memory
        *changes, newcomers, examples = sent
        share = Share.of(total, newcomers, examples)
        return [*(share.moved(c, change) for c, change in zip(mean, changes)), share.after]
