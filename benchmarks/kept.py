"""Memory of a federation whose clients keep a whole model each (FedProto), by the number of clients.

    python benchmarks/kept.py [--clients 2,26] [--model resnet18] [--size 64] [--rounds 2]

Every number of clients in a process of its own; each client has one batch of noise. Writes results/benchmarks/kept.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
_IMAGES = 8  # a client's


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="2,26", help="(default %(default)s)")
    parser.add_argument("--model", default="resnet18", help="(default %(default)s)")
    parser.add_argument("--size", type=int, default=64, help="of an image (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="(default %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "kept.csv")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_measure(options)))
        return

    import pandas as pd

    rows = []
    for count in options.clients.split(","):
        command = [sys.executable, __file__, "--child", count, "--model", options.model]
        command += ["--size", str(options.size), "--rounds", str(options.rounds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], file=sys.stderr, flush=True)
    table = pd.DataFrame(rows)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))


def _measure(options: argparse.Namespace) -> dict:
    import numpy as np
    import tensorflow as tf

    from models import classifiers
    from tffapps.engine import open_engine
    from tffapps.federated.cohort import Client
    from tffapps.federated.fedproto import FedProto
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task, cross_entropy
    from tffapps.runs import Run
    from tffapps.training import train

    count, side = options.child, options.size
    model = classifiers.build(options.model, input_shape=(side, side, 3), classes=26)
    spec = (tf.TensorSpec([None, side, side, 3], tf.float32), tf.TensorSpec([None], tf.int32))

    def client(place: int) -> Client:
        def batches(number: int) -> tf.data.Dataset:
            images = np.random.default_rng([place, number]).random((_IMAGES, side, side, 3), np.float32)
            return tf.data.Dataset.from_tensors((images, np.full(_IMAGES, place % 26, np.int32)))

        return Client(f"client{place}", batches)

    with tempfile.TemporaryDirectory() as folder, open_engine("in-process") as engine:
        round_ = build_round(Task.of_batches(model, spec, cross_entropy), FedProto())
        with Run(pathlib.Path(folder), "kept", {}) as run:
            clients = [client(place) for place in range(count)]
            train(run, round_, model.get_weights(), clients, rounds=options.rounds, engine=engine)
            peaks = run.rounds().peak_memory_mb
            disk = sum(file.stat().st_size for file in run.folder.glob("kept-*.npz"))
    return {
        "model": options.model,
        "clients": count,
        "kept_mb_each": round(sum(value.nbytes for value in model.get_weights()) / 2**20, 1),
        "on_disk_mb": round(disk / 2**20, 1),
        "peak_memory_mb": int(peaks.iloc[-1]),
    }


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
