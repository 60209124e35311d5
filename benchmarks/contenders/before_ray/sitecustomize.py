"""Loads TensorFlow in Ray's workers before Ray's own library, for `run_flower.py`; Python runs this file by its name.

Both have a copy of Abseil. Flower imports TensorFlow where Ray's threads are running already, and a worker was seen to
abort then ("Mutex corrupt"); a process that loads TensorFlow first, as the driver does, was not.
"""

import pathlib

if b"default_worker.py" in pathlib.Path("/proc/self/cmdline").read_bytes():
    import tensorflow  # noqa: F401
