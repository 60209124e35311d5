"""How a TFF computation is executed. `open_engine` is the one function to choose.

with open_engine("in-process"):
    any_tff_computation(...)
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import resource
from collections.abc import Iterator
from typing import Any

from tffapps.errors import UserError

NAMES = ("in-process", "worker")


@dataclasses.dataclass
class Engine:
    name: str
    context: Any

    def peak_memory(self) -> int:
        """Largest resident size so far of every process that computes, in bytes."""
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return ours + (self.context.peak_memory() if hasattr(self.context, "peak_memory") else 0)


def check_name(name: str) -> None:
    """Refuses an unknown engine before TensorFlow is imported."""
    if name not in NAMES:
        raise UserError(f"--engine {name}: unknown; choose one of {', '.join(NAMES)}")


@contextlib.contextmanager
def open_engine(name: str = "in-process") -> Iterator[Engine]:
    """Makes an engine TFF's context for the length of the `with` block and ends it afterwards."""
    check_name(name)
    import tensorflow_federated as tff

    from tffapps.engine.in_process import InProcessContext

    _replace_default()
    if name == "worker":
        from tffapps.engine.worker import WorkerContext

        context: Any = WorkerContext()
    else:
        context = InProcessContext()
    try:
        with tff.framework.get_context_stack().install(context):
            yield Engine(name, context)
    finally:
        if hasattr(context, "close"):
            context.close()


@functools.cache
def _replace_default() -> None:
    """TFF's own default context would start a worker that nobody ends, and complains when Python exits."""
    import tensorflow_federated as tff

    from tffapps.engine.in_process import InProcessContext

    tff.framework.set_default_context(InProcessContext())
