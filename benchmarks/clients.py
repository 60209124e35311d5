"""What one small client costs: 2, 50, 200 and 1,000 clients of 8 images of 32×32, beside plain Keras `fit`.

    python benchmarks/clients.py [--passes 2] [--results results]

`files` reads every image in every round, `held` has decoded them before (what the systems do below a budget), `fit` is
one epoch over the same files in batches of the same size. Every contender runs in a process of its own (so peak memory
is its own), one after the other, the whole list `--passes` times; the best round of each counts. Prints a table; with
`--results` it is written to benchmarks/clients.csv there as well. The last rows are two clients with
as many images in all as the thousand: memory must not depend on how many clients they are.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import small_clients as workload

CLIENTS = (2, 50, 200, 1000)
CONTENDERS = [
    *((name, clients, clients * workload.IMAGES) for clients in CLIENTS for name in ("fit", "files", "held")),
    *((name, 2, CLIENTS[-1] * workload.IMAGES) for name in ("files", "held")),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="timed rounds after the first (default 3)")
    parser.add_argument("--passes", type=int, default=1, help="times the whole list is run (default 1)")
    parser.add_argument("--results", type=pathlib.Path, help="folder for benchmarks/clients.csv (default: none)")
    parser.add_argument("--one", nargs=3, metavar=("CONTENDER", "CLIENTS", "IMAGES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, clients, images = options.one
        print(json.dumps(_measure(name, int(clients), int(images), options.repeats)))
        return
    for images in sorted({images for _, _, images in CONTENDERS}):
        workload.files(images)
    measured: dict[tuple[str, int, int], list[dict]] = {contender: [] for contender in CONTENDERS}
    for number in range(options.passes):
        for contender in CONTENDERS:
            print(f"pass {number + 1}: {contender[0]}, {contender[1]} client(s)", file=sys.stderr, flush=True)
            measured[contender].append(_in_a_process(contender, options.repeats))
    _report(measured, options.results)


def _in_a_process(contender: tuple[str, int, int], repeats: int) -> dict:
    arguments = ["--repeats", str(repeats), "--one", *map(str, contender)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _report(measured: dict[tuple[str, int, int], list[dict]], results: pathlib.Path | None) -> None:
    import pandas as pd

    rows = []
    for (name, clients, images), runs in measured.items():
        best = {key: min(run[key] for run in runs) for key in runs[0]}
        rows.append(
            {
                "contender": name,
                "clients": clients,
                "images": images,
                "ms_per_client": round(1000 * best["seconds"] / clients, 2),
                "processor_ms_per_client": round(1000 * best["processor"] / clients, 2),
                "seconds_to_end_of_first_round": round(best["first"], 2),
                "peak_memory_mb": round(best["memory"]),
            }
        )
    table = pd.DataFrame(rows)
    if results is not None:
        path = results / "benchmarks" / "clients.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(path, index=False)
    print(table.to_string(index=False))
    shape = f"{workload.IMAGES} images of {workload.SIDE}x{workload.SIDE}"
    print(f"6,510 parameters, {shape} a client but in the last rows, one epoch a round, {os.cpu_count()} cores")


def _measure(name: str, clients: int, images: int, repeats: int) -> dict:
    import tensorflow as tf

    tf.get_logger().setLevel("FATAL")
    paths, labels = workload.files(images)
    begin = time.perf_counter()
    one_round = _fit(paths, labels) if name == "fit" else _federation(name, paths, labels, clients)
    one_round(0)
    first = time.perf_counter() - begin
    seconds, processor = [], []
    for number in range(1, repeats + 1):
        wall, own = time.perf_counter(), time.process_time()
        one_round(number)
        seconds.append(time.perf_counter() - wall)
        processor.append(time.process_time() - own)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {"first": first, "seconds": min(seconds), "processor": min(processor), "memory": memory}


def _from_files(paths, labels, seed):
    from tffapps.data import pipeline

    size = (workload.SIDE, workload.SIDE)
    return pipeline.batches(
        paths, labels, size=size, channels=workload.CHANNELS, batch=workload.BATCH, seed=seed, formats=("png",)
    )


def _fit(paths, labels):
    import tensorflow as tf

    model = workload.network()
    model.compile(tf.keras.optimizers.SGD(workload.LEARNING_RATE), "sparse_categorical_crossentropy")
    return lambda number: model.fit(_from_files(paths, labels, number), verbose=0)


def _federation(name, paths, labels, clients):
    import numpy as np
    import tensorflow as tf

    from tffapps.data import pipeline
    from tffapps.engine import replace_default_context
    from tffapps.federated.cohort import Client, play
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task, cross_entropy

    replace_default_context()
    model = workload.network()
    spec = pipeline.element_spec((workload.SIDE, workload.SIDE), workload.CHANNELS)
    task = Task.of_batches(model, spec, cross_entropy)
    round_ = build_round(task, FedAvg(learning_rate=workload.LEARNING_RATE))
    images = None
    if name == "held":
        images = np.concatenate([batch for batch, _ in _in_order(paths).as_numpy_iterator()])

    def data(part: slice, position: int, number: int) -> tf.data.Dataset:
        seed = number * 100_000 + position
        if images is None:
            return _from_files(paths[part], labels[part], seed)
        return pipeline.from_arrays(images[part], labels[part], batch=workload.BATCH, seed=seed)

    def client(position: int, part: slice) -> Client:
        return Client(str(position), lambda number: data(part, position, number))

    everybody = [client(position, part) for position, part in enumerate(workload.parts(clients, len(paths)))]
    state = round_.start(model.get_weights())

    def one_round(number: int) -> None:
        nonlocal state
        outcome = play(round_, state, everybody, number, min_clients=clients)
        assert outcome.examples == len(paths)
        state = outcome.state

    return one_round


def _in_order(paths):
    from tffapps.data import pipeline

    size, none = (workload.SIDE, workload.SIDE), [0] * len(paths)
    return pipeline.batches(paths, none, size=size, channels=workload.CHANNELS, batch=64, shuffle=False)


if __name__ == "__main__":
    main()
