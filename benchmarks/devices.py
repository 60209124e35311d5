"""One device against several: rounds of many small clients, and whether the weights are the same.

    python benchmarks/devices.py [--devices 2] [--clients 50] [--passes 3]

Each number of devices runs in a process of its own, in turns, `--passes` times; of all its rounds but the first the
fastest counts, as anything else on the machine can only make a round slower. Without a GPU the devices are parts of
the processor: then the machine must have nothing else to do. Writes results/benchmarks/devices.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SIZE, BATCH, CLASSES = 64, 16, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="2", metavar="N|all", help="against one (default 2)")
    parser.add_argument("--network", default="tiny", help="of models.names (default tiny)")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--images", type=int, default=64, help="of each client (default 64)")
    parser.add_argument("--rounds", type=int, default=4, help="timed, after the first (default 4)")
    parser.add_argument("--passes", type=int, default=3, help="processes of each contender (default 3)")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results")
    parser.add_argument("--one", nargs=2, metavar=("DEVICES", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_measure(options, *options.one)))
        return
    with tempfile.TemporaryDirectory() as folder:
        _compare(options, pathlib.Path(folder))


def _compare(options: argparse.Namespace, folder: pathlib.Path) -> None:
    import numpy as np
    import pandas as pd

    seconds: dict[str, list[float]] = {"1": [], options.devices: []}
    processor: dict[str, list[float]] = {"1": [], options.devices: []}
    weights: dict[str, list] = {}
    for number in range(options.passes):
        for devices in seconds:
            print(f"pass {number + 1}: {devices} device(s)", file=sys.stderr, flush=True)
            measured = _in_a_process(options, devices, folder / f"{devices}.npz")
            seconds[devices] += measured["seconds"]
            processor[devices] += measured["processor"]
            with np.load(folder / f"{devices}.npz") as content:
                weights[devices] = [content[name] for name in content.files]
    one, several = (min(values) for values in seconds.values())
    of_one, of_several = (min(values) for values in processor.values())
    pairs = zip(*weights.values())
    difference = max(float(np.abs(first - second).max()) for first, second in pairs)
    row = {
        "network": options.network, "clients": options.clients, "images": options.images, "devices": options.devices,
        "seconds_of_one": round(one, 3), "seconds": round(several, 3), "ratio": round(one / several, 3),
        "processor_seconds_of_one": round(of_one, 3), "processor_seconds": round(of_several, 3),
        "largest_difference": difference,
    }  # fmt: skip
    path = options.results / "benchmarks" / "devices.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([row]).to_csv(path, index=False)
    print(
        f"one device {one:.3f} s a round, {options.devices} devices {several:.3f} s: {one / several:.2f} x the rounds/s"
    )
    print(f"processor time of a round: {of_one:.3f} s and {of_several:.3f} s")
    print(f"largest difference of weights after {options.rounds + 1} rounds: {difference:.2g}")
    what = f"{options.network} {SIZE}x{SIZE}, {options.clients} clients of {options.images} images"
    print(f"{what}, {os.cpu_count()} cores; table: {path}")


def _in_a_process(options: argparse.Namespace, devices: str, file: pathlib.Path) -> dict:
    arguments = [f"--{name}={getattr(options, name)}" for name in ("network", "clients", "images", "rounds")]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, *arguments, "--one", devices, str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _measure(options: argparse.Namespace, devices: str, file: str) -> dict:
    from tffapps.engine import open_engine

    with open_engine("in-process", devices=devices):
        import numpy as np

        from models import classifiers
        from tffapps.data import pipeline
        from tffapps.federated.cohort import Client, play
        from tffapps.federated.fedavg import FedAvg
        from tffapps.federated.round import build_round
        from tffapps.federated.task import Task, cross_entropy

        model = classifiers.build(options.network, input_shape=(SIZE, SIZE, 3), classes=CLASSES)
        task = Task.of_batches(model, pipeline.element_spec((SIZE, SIZE), 3), cross_entropy)
        round_ = build_round(task, FedAvg())
        rng = np.random.default_rng(0)
        labels = rng.integers(0, CLASSES, (options.clients, options.images)).astype(np.int32)
        shifts = 0.1 * labels[..., None, None, None].astype(np.float32)
        images = 0.7 * rng.random((*labels.shape, SIZE, SIZE, 3), np.float32) + shifts

        def client(place: int) -> Client:  # whose data is made in its turn, as in any command
            return Client(
                str(place),
                lambda number: pipeline.from_arrays(
                    images[place], labels[place], batch=BATCH, seed=1000 * number + place
                ),
            )

        everybody = [client(place) for place in range(options.clients)]
        state, seconds, processor = round_.start(model.get_weights()), [], []
        for number in range(options.rounds + 1):
            begin, used = time.perf_counter(), time.process_time()
            state = play(round_, state, everybody, number, min_clients=options.clients).state
            seconds.append(time.perf_counter() - begin)
            processor.append(time.process_time() - used)
        np.savez(file, *state.weights)
        return {"seconds": seconds[1:], "processor": processor[1:]}


if __name__ == "__main__":
    main()
