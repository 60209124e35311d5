"""What a federated method is made of. A method file overrides only what differs from FedAvg.

Flags are made from these classes, so method files import TensorFlow only where they use it: `--help` must not wait.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from tffapps.federated.lazy import np, tf, tff
from tffapps.settings import CHANGED, setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tffapps.federated.local import ClientContext, ClientResult, GradientRule, LossAndGradients, Tensors
    from tffapps.federated.optimizers import LocalOptimizer
    from tffapps.federated.scaling import LossScaling
    from tffapps.federated.task import Task


SCHEDULES = ("constant", "cosine")  # cosine: down to zero within every local training


@dataclasses.dataclass(frozen=True)
class Method:
    """FedAvg: clients train by SGD on their own data, the server adds the mean of their updates."""

    name: ClassVar[str] = "fedavg"
    # False: no weights cross. A client's model is then the first of what it keeps; the server's stays as it began.
    sends_weights: ClassVar[bool] = True
    # Whether every client has a model of its own in the end, which is what is judged (`own_model`).
    personal: ClassVar[bool] = False
    weighs_clients: ClassVar[bool] = False  # whether clients count by `ClientResult.weight`, not by their examples
    all_labelled: ClassVar[bool] = True  # whether the clients' images have labels, all of them
    counts_clients: ClassVar[bool] = False  # whether a round is another one for another number of clients
    scales_loss: ClassVar[bool] = True  # whether it trains by `local.train`, as float16 needs
    # Aggregators that would make something else of it, and why: they are refused beside it.
    refused_aggregators: ClassVar[Mapping[str, str]] = {}
    # How many noised gradients of each batch all that leaves a client is made of, under `record_dp`. 0: it is made of
    # more, or what an image does to it is not known, and record_dp is refused.
    record_passes: ClassVar[int] = 0

    optimizer: str = setting("sgd", "client optimiser", choices=("sgd", "adam", "adamw"))
    learning_rate: float = setting(0.01, "client learning rate", above=0)
    momentum: float = setting(0.0, "client momentum, for sgd", least=0, below=1)
    weight_decay: float = setting(0.0, "decoupled weight decay, for adamw", least=0)
    loss_scale: float = setting(
        0.0, "of --precision float16: the loss times this; 0: as large as goes well", least=0, in_key=CHANGED
    )
    server_examples: float = setting(0.0, "weight of the server's own model in the average", least=0, flag=False)
    schedule: str = setting("constant", "learning rate along a local training", choices=SCHEDULES, flag=False)
    average_from: int = setting(0, "the result is the mean of the models from this round on", least=0, flag=False)
    average_weights: float = setting(
        0.0, "what a training's averaged weights keep at a step; 0: the last weights", least=0, below=1, flag=False,
        in_key=CHANGED,
    )  # fmt: skip
    record_dp: float = setting(
        0.0, "DP of single images at every client: noise multiplier of DP-SGD; 0: none", least=0, in_key=CHANGED
    )
    record_clip: float = setting(1.0, "record-dp: largest L2 norm of one image's gradient", above=0, in_key=CHANGED)

    @property
    def learns_embeddings(self) -> bool:
        """Whether a loss of its own is of embeddings: where these do not train, it has no gradient and is refused."""
        return False

    def report_columns(self, task: Task) -> tuple[str, ...]:
        """Numbers that a client reports besides its examples and its loss."""
        return ()

    def client_optimizer(self) -> LocalOptimizer:
        """Its state begins anew every round."""
        from tffapps.federated.optimizers import Adam, Functional

        if self.optimizer == "sgd":
            return Functional(tff.learning.optimizers.build_sgdm(self.learning_rate, momentum=self.momentum or None))
        if self.optimizer == "adam":
            return Adam(self.learning_rate)
        if self.optimizer == "adamw":
            return Functional(tff.learning.optimizers.build_adamw(self.learning_rate, weight_decay=self.weight_decay))
        raise ValueError(f"optimizer {self.optimizer!r}: choose sgd, adam or adamw")

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        """What a client does with `task.model`, whose weights are the global ones when this begins."""
        return self.train(task, data)

    def train(
        self, task: Task, data: Any, rule: GradientRule | None = None, forward: Any = None, loss: Any = None
    ) -> ClientResult:
        """Local training on (images, labels); `forward` as in `local.train`, `loss` in place of the task's."""
        from tffapps.federated import local

        batches, steps = data if isinstance(data, local.Counted) else (data, None)
        optimizer, rule, loss = self.client_optimizer(), rule or self.gradients, loss or task.loss
        private = local.Private(self.record_dp, self.record_clip, task.noise_seed) if self.record_dp else None
        return local.train(
            task.model, batches, loss, optimizer, rule, self.scheduled(steps), forward=forward, private=private,
            scaling=self.scaling(task), average=self.average_weights,
        )  # fmt: skip

    def scaling(self, task: Task) -> LossScaling:
        """What `local.train` is told of a model that computes in 16 bits."""
        from tffapps.federated.scaling import LossScaling

        return LossScaling.of(task.model, self.loss_scale)

    def scheduled(self, steps: Any) -> Any:
        """What `local.train` is told of the number of steps."""
        if self.schedule == "constant":
            return None
        if steps is None:
            raise ValueError(f"--schedule {self.schedule}: the number of steps is not known here (local.Counted)")
        return steps

    def gradients(
        self, loss_and_gradients: LossAndGradients, variables: list[tf.Variable], start: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """Loss and gradients of one local step; `start` is the model the round began with."""
        return loss_and_gradients()

    def first_memory(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """What the server remembers and broadcasts beside the weights, as it is when a run begins with `weights`.

        Shapes and dtypes may depend on the task alone.
        """
        return []

    def first_kept(self, task: Task, weights: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
        """What a client keeps between rounds (`ClientContext.kept`, `ClientResult.kept`), as it is before its first.

        Shapes and dtypes may depend on the task alone. On one machine it lies in the run's folder; across sites it
        is sent once, and stays at the site (`wire.states`).
        """
        return []

    def personal_part(self, task: Task) -> tuple[bool, ...]:
        """Which of the model's weights stay with a client and are not sent; empty: all are sent."""
        return ()

    def own_model(self, task: Task, weights: Sequence[np.ndarray], kept: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The model that a client uses, of the global weights and what it keeps, where the method is `personal`."""
        return list(weights)

    def sent_specs(self, task: Task) -> list[tf.TensorSpec]:
        """Of the tensors, of real numbers, that a client sends besides its update (`ClientResult.sent`)."""
        return []

    def gathered_specs(self, task: Task) -> list[tf.TensorSpec]:
        """Of the tensors that a client sends and the server wants from each, not their mean (`ClientResult.gathered`).

        The server sees them one by one: secure aggregation does not cover them, and dp is refused beside them.
        """
        return []

    def next_memory(self, task: Task, memory: Tensors, sent: Tensors, before: Tensors, after: Tensors) -> Tensors:
        """The memory for the next round. `sent` is the mean over the clients, weighted like their updates; behind it
        comes what was gathered, (clients, …) each, zeros from those left out. `before` and `after` are the global
        weights, all of them. Runs at the server.
        """
        return memory

    def mean_update(self, update: Tensors, sent: Tensors) -> Tensors:
        """What the server's optimiser is given: made of the mean update of the trained weights and the mean of what was
        sent (`sent_specs`)."""
        return update

    def server_work(self, task: Task, data: Any) -> None:
        """Trains `task.model`, whose weights are the new global ones, on the server's own data (`task.server_spec`)."""
        raise NotImplementedError(f"{self.name} has no server step")

    def server_step(self, task: Task, data: Any, memory: Tensors, sent: Tensors) -> Tensors:
        """`server_work` for methods that remember: sees the memory and what was sent, as in `next_memory`, and returns
        the memory that `next_memory` is given.
        """
        self.server_work(task, data)
        return memory

    def server_optimizer(self) -> Any:
        """Takes the negative mean update of the trained weights for a gradient; SGD with rate 1 is FedAvg."""
        return tff.learning.optimizers.build_sgdm(1.0)
