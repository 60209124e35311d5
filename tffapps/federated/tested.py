"""Any method whose clients also test: each tries the model it has trained on test images of its own.

What a client reports is the confusion matrix, counts by true and predicted class; the images stay where they are.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from tffapps.federated.method import Method

if TYPE_CHECKING:
    from tffapps.federated.local import ClientContext, ClientResult
    from tffapps.federated.task import Task


class DataAndTest(NamedTuple):
    """A client's data: what the method asks for, and a dataset of (images, labels) to test on."""

    training: Any
    test: Any

    @classmethod
    def spec(cls, training: Any, batches: Any) -> DataAndTest:
        import tensorflow as tf

        return cls(training, tf.data.DatasetSpec(batches))


@dataclasses.dataclass(frozen=True)
class Tested:
    """Stands in for `method` in `build_round`: the same updates, `test_<true>_<predicted>` added to the reports."""

    method: Method

    def report_columns(self, task: Task) -> tuple[str, ...]:
        classes = range(task.model.output_shape[-1])
        return (*self.method.report_columns(task), *(f"test_{i}_{j}" for i in classes for j in classes))

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:
        import tensorflow as tf

        from tffapps.federated import local

        done = self.method.work(task, data.training, site)
        counts = tf.reshape(local.confusion(task.model, data.test), [task.model.output_shape[-1] ** 2])
        return done._replace(extras=(*done.extras, *tf.unstack(counts)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)
