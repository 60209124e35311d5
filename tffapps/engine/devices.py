"""Several devices in one process: clients of a pass side by side, their results in the clients' order.

    clients 0 1 2 3 4 …  ──►  a thread for each device  ──►  results 0, 1, 2, … folded by the caller

Every device has its own copy of the graphs, and so of the model's variables. The next client goes to whichever device
is free; what it comes to is handed over in its turn, so that sums are made in the same order as on one device. Only a
few clients are begun ahead of the one whose turn it is: no more results than that ever wait.

Devices are the GPUs that TensorFlow sees or, where there is none, parts of the processor (logical devices), each
with its share of the cores. No TensorFlow is imported before `set_up`.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from tffapps.errors import UserError

ONE, ALL = "1", "all"
AHEAD = 2  # clients that are begun for each device before the first of them is folded
T = TypeVar("T")


def check(wanted: str) -> None:
    """Refuses what is neither a number nor all."""
    if wanted != ALL and not (wanted.isascii() and wanted.isdigit() and 0 < int(wanted) < 1000):
        raise UserError(f"--devices {wanted}: give a number from 1, or {ALL}")


def set_up(wanted: str = ONE) -> tuple[str, ...]:
    """The names of the devices that clients are to run on; none: on one, wherever TensorFlow puts them.

    Where there is no GPU the processor is divided, which must be done before TensorFlow has begun to compute.
    """
    check(wanted)
    if wanted == ONE:
        return ()
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    there, kind = (len(gpus), "GPUs") if gpus else (cores(), "cores and no GPU")
    count = there if wanted == ALL else int(wanted)
    if count > there:
        raise UserError(f"--devices {wanted}: there are {there} {kind} here; give {there} or fewer, or {ALL}")
    if count == 1:
        return ()
    if not gpus:
        _divide_processor(count)
    return tuple(device.name for device in tf.config.list_logical_devices("GPU" if gpus else "CPU")[:count])


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))


def _divide_processor(count: int) -> None:
    import tensorflow as tf

    (processor,) = tf.config.list_physical_devices("CPU")
    if len(tf.config.get_logical_device_configuration(processor) or ()) >= count:
        return
    try:
        tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)
        if not tf.config.threading.get_intra_op_parallelism_threads():
            # All of them share one pool of threads: with as many threads as cores, each would wait for the others'.
            tf.config.threading.set_intra_op_parallelism_threads(max(1, cores() // count))
    except RuntimeError as error:
        raise UserError(
            f"--devices {count}: TensorFlow has begun to compute with the processor in one piece; open the engine first"
        ) from error


class Pool:
    """Threads, one for each device."""

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices`: TensorFlow's names; one may be there twice."""
        self.devices = tuple(devices)
        self._numbers = itertools.count()
        self._thread = threading.local()
        self._executor = concurrent.futures.ThreadPoolExecutor(
            len(self.devices), thread_name_prefix="device", initializer=self._claim
        )

    def _claim(self) -> None:
        self._thread.place = next(self._numbers)

    @property
    def place(self) -> int | None:
        """The number of the device that the calling thread works for; None: it is not one of these threads."""
        return getattr(self._thread, "place", None)

    def in_order(self, work: Callable[[int], T], count: int) -> Generator[T, None, None]:
        """`work(0)`, `work(1)`, … as a generator. Close it: then nothing is left running, also after an error."""
        waiting: collections.deque[concurrent.futures.Future[T]] = collections.deque()
        numbers = iter(range(count))
        try:
            for number in itertools.islice(numbers, AHEAD * len(self.devices)):
                waiting.append(self._executor.submit(self._on_device, work, number))
            while waiting:
                yield waiting.popleft().result()
                for number in itertools.islice(numbers, 1):
                    waiting.append(self._executor.submit(self._on_device, work, number))
        finally:
            for future in waiting:
                future.cancel()
            concurrent.futures.wait(waiting)

    def _on_device(self, work: Callable[[int], T], number: int) -> T:
        import tensorflow as tf

        place = self.place
        assert place is not None  # this is one of the pool's threads
        with tf.device(self.devices[place]):
            return work(number)

    def at_home(self, value: Any) -> Any:
        """An engine value, or a list of tensors, on the first device, where results are folded."""
        return self.at(0, value)

    def at(self, place: int, value: Any) -> Any:
        """The same on any of the devices."""
        import tensorflow as tf

        with tf.device(self.devices[place]):
            return _copied(value, self.devices[place])

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._executor.shutdown(cancel_futures=True)


def _copied(value: Any, device: str) -> Any:
    import tensorflow as tf
    import tensorflow_federated as tff

    if isinstance(value, list):
        return [_copied(part, device) for part in value]
    if isinstance(value, tff.structure.Struct):
        return tff.structure.Struct(
            [(name, _copied(part, device)) for name, part in tff.structure.iter_elements(value)]
        )
    if not isinstance(value, tf.Tensor) or value.dtype == tf.variant or value.device.endswith(device):
        return value  # a dataset, or what is there
    return tf.identity(value)
