"""What every contender of `peers.py` is given and gives back; it runs in the contender's own environment.

A contender is a script: `python run_x.py JOB.json` reads the job, plays the rounds and prints one line of JSON. It
needs its own packages, NumPy and Pillow, and nothing of this project but the network of `small_clients.py`.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # small_clients


class Job:
    """The clients' files and labels, where the images are to come from, and the weights to begin with."""

    def __init__(self, file: str) -> None:
        told = json.loads(pathlib.Path(file).read_text())
        self.contender: str = told["contender"]
        self.images: str = told["images"]  # "files": read in every round; "memory": read once, before it begins
        self.rounds: int = told["rounds"]
        self.began: float = told["began"]  # by the clock, before this process was started
        self.paths: list[list[str]] = told["paths"]  # of each client
        self.labels: list[list[int]] = told["labels"]
        with np.load(told["weights"]) as arrays:
            self.weights = [arrays[name] for name in sorted(arrays.files)]
        self.timeout: float = told["timeout"]  # seconds after which it is ended
        self._out, self._progress = told["weights_out"], told["progress"]
        self._ends: list[float] = []

    def data(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """A client's images float32 (n, side, side, 3) in [0, 1] and labels int32, read from its files."""
        from PIL import Image

        pictures = np.stack([np.asarray(Image.open(path)) for path in self.paths[client]])
        return pictures.astype(np.float32) / np.float32(255), np.asarray(self.labels[client], np.int32)

    def source(self) -> Any:
        """`data`, or, where images are to be in memory, a look-up of what it gave."""
        if self.images == "files":
            return self.data
        return [self.data(client) for client in range(len(self.paths))].__getitem__

    def round_ended(self, counts: bool = True) -> None:
        self._ends.append(time.time())
        if counts:
            self.went_on()

    def went_on(self) -> None:
        """Leaves a line of how far it is, for the case that it is ended: a round, or a client of Flower's."""
        with open(self._progress, "a") as file:
            file.write("1\n")

    def finish(self, weights: list[np.ndarray], versions: dict[str, str]) -> None:
        """`versions` is of what matters to the numbers."""
        np.savez(self._out, *weights)
        seconds = [after - before for before, after in zip(self._ends, self._ends[1:])]
        print(json.dumps({"first": self._ends[0] - self.began, "seconds": seconds, "versions": versions}))


def version(*packages: str) -> dict[str, str]:
    from importlib import metadata

    return {name: metadata.version(name) for name in packages}
