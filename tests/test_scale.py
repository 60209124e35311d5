"""A study of a thousand clients: all take part, and they need no more memory than two with the same images."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.test_commands import environment
from tffapps.data.partition import dirichlet
from tffapps.data.textures import write_textures

CLIENTS, CLASSES, PER_CLASS, SIDE = 1000, 8, 1000, 16
TRAINED = CLASSES * PER_CLASS * 7 // 10
FLAGS = ("--model", "tiny", "--size", str(SIDE), "--rounds", "2", "--batch", "8", "--methods", "fedavg", "--seeds", "0")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_textures(folder, clients=1, per_class=PER_CLASS, size=SIDE, classes=CLASSES, progress=False)
    paths = sorted(folder.rglob("*.png"))
    rows = [(str(path), path.parent.name, path.parent.parent.name) for path in paths]
    return pd.DataFrame(rows, columns=["path", "label", "split"])


def rounds_of(images, clients: int, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Of a run with these images in Dirichlet parts; also what clients reported."""
    trained = images.split == "train"
    part = np.zeros(len(images), int)
    part[trained] = dirichlet(images.label[trained].tolist(), clients, alpha=10.0, seed=0)
    table = images.assign(client=[f"c{number:04d}" for number in part])
    table.to_csv(folder / f"{clients}.csv", index=False)
    results = folder / f"results-{clients}"
    subprocess.run(
        [sys.executable, "-m", "tffapps", "classify", "--profile", "smoke", "--data", str(folder / f"{clients}.csv"),
         "--results", str(results), *FLAGS],
        cwd=folder, env=environment(), check=True, capture_output=True, timeout=1800,
    )  # fmt: skip
    (run,) = results.glob("classify/runs/*")
    return pd.read_csv(run / "rounds.csv"), pd.read_csv(run / "clients.csv")


@pytest.mark.slow
def test_a_thousand_clients_in_the_memory_of_two(images, tmp_path):
    many, reports = rounds_of(images, CLIENTS, tmp_path)
    assert many.clients.tolist() == [CLIENTS] * 2 and many.examples.tolist() == [TRAINED] * 2
    assert reports.groupby("round").client.nunique().tolist() == [CLIENTS] * 2 and many.left_out.isna().all()
    few, _ = rounds_of(images, 2, tmp_path)
    assert few.examples.tolist() == [TRAINED] * 2
    assert many.peak_memory_mb.max() <= 1.1 * few.peak_memory_mb.max()
