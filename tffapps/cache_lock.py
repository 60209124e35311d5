"""Who uses the cache folder: runs and sites, any number at once, or `python -m tffapps cache --clean`, alone.

The lock is the system's, on a file in the folder, and ends with the process that holds it, however that ends.
"""

import contextlib
import fcntl
from collections.abc import Iterator

from tffapps.errors import UserError
from tffapps.home import cache_folder

FILE = ".in-use"


@contextlib.contextmanager
def used() -> Iterator[None]:
    """For as long as the block runs nothing is cleaned; a cleaning that is going on is waited for."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a folder that cannot be written, or a file system without locks
            cache_folder().mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(cache_folder() / FILE, "a"))
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """A UserError where a run or a site uses the folder, which has to be there."""
    try:
        lock = open(cache_folder() / FILE, "a")  # noqa: SIM115  closed below
    except OSError as error:
        raise UserError(f"cannot write to {cache_folder()}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"a run or a site uses {cache_folder()}; wait for it or end it, then clean") from None
        except OSError:  # a file system without locks
            pass
        yield
