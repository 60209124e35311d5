"""Methods whose clients also test: each tries the model it has trained on test images of its own.

What a client reports is the confusion matrix, counts by true and predicted class; the images stay where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tffapps.federated.fedavg import FedAvg
from tffapps.federated.fixmatch import FixMatch
from tffapps.federated.flexmatch import FlexMatch
from tffapps.federated.freematch import FreeMatch
from tffapps.federated.lazy import tf
from tffapps.federated.mended_fixmatch import MendedFixMatch
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

        return cls(training, tf.data.DatasetSpec(batches))


class Tested(Method):
    """Before a method in a class's bases: the same updates, `test_<true>_<predicted>` added to the reports.

    Not a dataclass of its own: the fields, and so the key of a run, are those of the method behind it.
    """

    def report_columns(self, task: Task) -> tuple[str, ...]:
        classes = range(task.model.output_shape[-1])
        return (*super().report_columns(task), *(f"test_{i}_{j}" for i in classes for j in classes))

    def work(self, task: Task, data: Any, site: ClientContext) -> ClientResult:

        from tffapps.federated import local

        done = super().work(task, data.training, site)
        counts = tf.reshape(local.confusion(task.model, data.test), [task.model.output_shape[-1] ** 2])
        return done._replace(extras=(*done.extras, *tf.unstack(counts)))


class TestedFedAvg(Tested, FedAvg):
    """FedAvg whose clients test."""


class TestedFixMatch(Tested, FixMatch):
    """FixMatch whose clients test."""


class TestedMendedFixMatch(Tested, MendedFixMatch):
    """The same, mended."""


class TestedFlexMatch(Tested, FlexMatch):
    """FlexMatch whose clients test."""


class TestedFreeMatch(Tested, FreeMatch):
    """FreeMatch whose clients test."""
