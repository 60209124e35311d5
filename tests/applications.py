"""What the tests of the applications' commands share."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.test_commands import PROBE, environment
from tffapps import cache_lock
from tffapps.training import MEASURED_COLUMNS


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """For commands that are called in this process: they set a signal handler, and write below where they stand."""
    handler = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield patch
    signal.signal(signal.SIGTERM, handler)


def record(results: Path, run: str) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """The rounds of a finished run, without what is measured, and its last weights."""
    (folder,) = results.glob(f"runs/{run}-????????")
    (file,) = folder.glob("checkpoint-*.npz")
    with np.load(file) as content:
        weights = [content[name] for name in content.files]
    return pd.read_csv(folder / "rounds.csv").drop(columns=list(MEASURED_COLUMNS)), weights


def stored(folder: Path) -> list[Path]:
    """What lies below the `data` of a folder, but for the file by which the cache is locked."""
    return [file for file in (folder / "data").rglob("*") if file.is_file() and file.name != cache_lock.FILE]


def check_help(module: str, flag: str) -> None:
    """That --help names a flag of the application, and does not wait for TensorFlow."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(module=module)],
        env=environment(), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert f"usage: python -m {module}" in done.stdout and flag in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
