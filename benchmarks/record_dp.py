"""What DP-SGD costs: a round above a cut of MobileNetV2 with --record-dp, as a multiple of the same round without.

    python benchmarks/record_dp.py [--images 128] [--size 96] [--repeats 5] [--cuts block_12_add]

The rounds are FedAvg's with one local epoch and two clients, on the in-process engine, with random weights, over
features that are held in memory. Played in turn in one process; tracing does not count. Both the wall clock's and the
processors' seconds are told, medians over the repeats: on a machine that does other things only the second ratio means
anything. Writes results/benchmarks/record_dp.csv.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
CUTS = {"block_12_add": "gap", "block_15_add": "conv", "head": "gap"}  # where it is cut → the head
NORM, NOISE = "group", 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=128, help="of both clients (default 128)")
    parser.add_argument("--size", type=int, default=96, help="side of an image (default 96)")
    parser.add_argument("--cuts", nargs="+", choices=list(CUTS), default=list(CUTS), help="of these (default all)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each, of which the median counts (default 5)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "record_dp.csv")
    options = parser.parse_args()

    import pandas as pd

    from tffapps.engine import open_engine

    rows = []
    with open_engine("in-process"):
        for cut in options.cuts:
            contenders = [_contender(cut, noise, options) for noise in (0.0, NOISE)]
            for play in contenders:
                play()  # traced, and memory warmed up
            times = [[_seconds(play) for play in contenders] for _ in range(options.repeats)]
            (plain, plain_cpu), (private, private_cpu) = (
                [statistics.median(values) for values in zip(*each)] for each in zip(*times)
            )
            rows.append({
                "cut": cut, "plain_seconds": round(plain, 3), "private_seconds": round(private, 3),
                "ratio": round(private / plain, 2), "ratio_of_processor_time": round(private_cpu / plain_cpu, 2),
            })  # fmt: skip
    table = pd.DataFrame(rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))
    what = f"{options.images} images of {options.size}×{options.size}, batches of {options.batch}"
    print(f"MobileNetV2 with --norm {NORM}, {what}, {os.cpu_count()} cores; table: {options.out}")


def _contender(cut: str, noise: float, options: argparse.Namespace) -> Callable[[], Any]:
    """A round."""
    import numpy as np
    import tensorflow as tf

    from models.assembled import assemble
    from tffapps.data import pipeline
    from tffapps.federated.cohort import Client, play
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task, cross_entropy

    shape = (options.size, options.size, 3)
    model = assemble("mobilenetv2", input_shape=shape, classes=3, head=CUTS[cut], cut=cut, norm=NORM).above
    random, count = np.random.default_rng(0), options.images // 2
    features = random.normal(size=(count, *model.input_shape[1:])).astype(np.float32)
    labels = random.integers(0, 3, count)
    clients = [
        Client(name, lambda number: pipeline.from_arrays(features, labels, batch=options.batch, seed=number))
        for name in ("a", "b")
    ]
    spec = tf.TensorSpec(model.input_shape, tf.float32), tf.TensorSpec((None,), tf.int32)
    round_ = build_round(Task.of_batches(model, spec, cross_entropy), FedAvg(record_dp=noise))
    state = round_.start(model.get_weights())
    return lambda: play(round_, state, clients, 1, 1)


def _seconds(play: Callable[[], Any]) -> tuple[float, float]:
    begin, processor = time.perf_counter(), time.process_time()
    play()
    return time.perf_counter() - begin, time.process_time() - processor


if __name__ == "__main__":
    main()
