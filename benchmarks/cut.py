"""What a round costs above a cut, as a share of the whole network's round.

    python benchmarks/cut.py [--images 256] [--clients 2] [--size 96]

The rounds are FedAvg's with one local epoch, on the in-process engine, with random weights: values do not change the
cost. What is stored below the cut is worked out before, once an image, and its cost stands in a column of its own. The
best of several rounds counts, played in turn; tracing does not. Writes results/benchmarks/cut.csv.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
# cut → head: gap stands on the end of the network, conv on the cut; block 14 is the first trained above block_13
HEADS = {"all": "gap", "block_12_add": "gap", "block_13": "gap", "block_12_add, new head": "conv", "head": "gap"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=256, help="of all clients (default 256)")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--size", type=int, default=96, help="side of an image (default 96)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=4, help="rounds of which the best counts (default 4)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "cut.csv")
    options = parser.parse_args()

    import pandas as pd

    from tffapps.engine import open_engine

    with tempfile.TemporaryDirectory() as folder, open_engine("in-process"):
        files = _images(pathlib.Path(folder), options)
        contenders = [_contender(name, files, pathlib.Path(folder) / "cache", options) for name in HEADS]
        for _, _, play in contenders:
            play()  # traced, and memory warmed up
        # In turn: whatever else slows the machine down for a while slows them all.
        passes = [[_seconds(play) for _, _, play in contenders] for _ in range(options.repeats)]
    rows = [
        {"cut": name, "head": HEADS[name], "round_seconds": round(min(seconds), 3), "storing_seconds": round(stored, 3)}
        for (name, stored, _), seconds in zip(contenders, zip(*passes))
    ]
    table = pd.DataFrame(rows)
    table["of_whole"] = (table["round_seconds"] / table["round_seconds"][0]).round(3)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))
    what = f"{options.images} images of {options.size}×{options.size}, {options.clients} clients"
    print(f"MobileNetV2, {what}, {os.cpu_count()} cores; table: {options.out}")


def _images(folder: pathlib.Path, options: argparse.Namespace) -> list[str]:
    import cv2
    import numpy as np

    generator = np.random.default_rng(0)
    files = [str(folder / f"{number}.png") for number in range(options.images)]
    for file in files:
        cv2.imwrite(file, generator.integers(0, 256, (options.size, options.size, 3), dtype=np.uint8))
    return files


def _contender(
    name: str, files: list[str], cache: pathlib.Path, options: argparse.Namespace
) -> tuple[str, float, Callable[[], Any]]:
    """Its name, the seconds that storing took, and a round of it."""
    from tffapps.federated.cohort import Client, play
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task, cross_entropy
    from tffapps.inputs import Inputs
    from tffapps.network import CutSettings, Network

    settings = CutSettings(name.partition(",")[0], "frozen")
    network = Network("mobilenetv2", options.size, 3, HEADS[name], "random", settings)
    inputs = Inputs(network, classes=4, formats=("png",), cache=cache, augmentations={}, held_bytes=2**26)
    initial = inputs.initial(0)
    stored = _seconds(lambda: inputs.prepare(files, "plain"))
    round_ = build_round(Task.of_batches(inputs.model, inputs.spec, cross_entropy), FedAvg(learning_rate=1e-3))
    state = round_.start(initial.weights)

    def client(number: int) -> Client:
        own = files[number :: options.clients]
        labels = [index % 4 for index in range(len(own))]
        return Client(str(number), lambda seed: inputs.batches(own, labels, batch=options.batch, seed=seed))

    clients = [client(number) for number in range(options.clients)]
    return name, stored, lambda: play(round_, state, clients, 1, options.clients)


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main()
