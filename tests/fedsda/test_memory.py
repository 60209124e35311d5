"""Memory does not grow with the number of patches: they are streamed through separation, alignment and training."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc

import cv2
import numpy as np
import pandas as pd
import pytest

from preprocessing.stain import StainSettings
from tests.preprocessing.stains import patches
from tests.test_commands import environment
from tffapps.data import tissue
from tffapps.fedsda.stains import aligned, measure

MEASURED, ALIGNED = (300, 3000), (150, 1500)  # more than a batch of either, and ten times as many
SIDE = 64
IMAGE = 3 * SIDE**2  # bytes of a patch


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Ten patches under many names."""
    folder = tmp_path_factory.mktemp("patches")
    for number, image in enumerate(patches(10, size=SIDE)[0]):
        cv2.imwrite(str(folder / f"{number}.png"), image[..., ::-1])
    paths = [folder / f"{number:04}.png" for number in range(MEASURED[1])]
    for number, path in enumerate(paths):
        path.symlink_to(folder / f"{number % 10}.png")
    clients = np.array(["one", "two"])[np.arange(len(paths)) % 2]
    return pd.DataFrame({"path": [str(path) for path in paths], "label": "a", "client": clients, "split": "train"})


def peak(work):
    """The most bytes that were taken at a time, beyond those before."""
    gc.collect()
    with pytest.MonkeyPatch.context() as patch:
        # Python's own table of names is copied when it is full: megabytes that any path can bring about.
        patch.setattr(sys, "intern", str)
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def check(work, counts):
    """Ten times the patches take hardly more, and each of them far less than its image: a name, numbers, a key."""
    work(counts[0] - 1)  # what is set up once
    few, many = (peak(lambda count=count: work(count)) for count in counts)
    assert many < 1.5 * few
    assert (many - few) / (counts[1] - counts[0]) < IMAGE / 2
    assert few > 64 * IMAGE  # or it was not the images that were measured


def test_stains_are_measured_in_stacks(table, tmp_path):
    def measured(count):
        assert measure(table.path[:count], StainSettings(), f"{count} patches", tmp_path).ok.sum() > count / 2

    check(measured, MEASURED)


def test_images_are_aligned_in_stacks(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def align(count):
        sources, matrices = list(table.path[:count]), tissue.centre_stains(0, count, count).astype(np.float32)
        paths = aligned(sources, matrices, StainSettings())
        assert sum(path == source for path, source in zip(paths, sources)) < count / 2

    check(align, ALIGNED)


TRAINING = """
import json, resource, sys
import numpy as np
from tffapps.engine import open_engine
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.federated.task import Task, cross_entropy
from tffapps.inputs import Inputs, Network

paths, counts, size = json.load(sys.stdin)
network = Network("tiny", size, 3, "gap", "no", "random")
inputs = Inputs(network, classes=2, formats=("png",), cache=None, augmentations={})
weights = inputs.initial(0).weights
round_ = build_round(Task.of_batches(inputs.model, inputs.spec, cross_entropy), FedAvg(learning_rate=0.1))
with open_engine("in-process"):
    state = round_.start(weights)
    for count in counts:
        batches = inputs.batches(paths[:count], np.arange(count) % 2, batch=16)
        state, reports, *_ = round_.next(state, [0], [batches])
        print(int(np.asarray(reports)[0, 2]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_training_streams_from_files(table):
    """The largest resident size of a process that trains on ten times the patches after a round on few."""
    size, counts = 96, [100, 100, 1000]
    done = subprocess.run(
        [sys.executable, "-c", TRAINING], input=json.dumps([list(table.path), counts, size]),
        env=environment(), capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    examples, sizes = zip(*(map(int, line.split()) for line in done.stdout.splitlines()))
    assert list(examples) == counts
    decoded = 4 * 3 * size**2 * (counts[2] - counts[1])
    assert sizes[2] - sizes[1] < decoded / 4
