"""Work on images in several processes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator

MANY = 1024  # images: for fewer, processes take longer to start than they save


def cores() -> int:
    """That this process may use: in one of a pool it is one."""
    return 1 if multiprocessing.parent_process() else len(os.sched_getaffinity(0))


@contextlib.contextmanager
def process_pool(workers: int) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """`with process_pool(4) as pool: pool.map(…)`; what has not begun when it ends is given up."""
    # Spawned, not forked: a fork of a process with TensorFlow's threads can hang.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(workers, context, initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Runs in each process: one thread for OpenCV, Ctrl-C left to the parent, none outlives a killed parent."""
    import cv2

    cv2.setNumThreads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
