"""Plain Keras `fit`, the in-process engine and TFF's worker on the same network and the same image files.

    python benchmarks/rounds.py [--images 3200] [--repeats 3]

Every contender runs in a process of its own (so peak memory is its own), one after the other, the whole list `--passes`
times; the best round of each counts, as anything else on the machine can only make a round slower. Writes
results/benchmarks/rounds.csv.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SIZE, BATCH, CLASSES = 64, 32, 3
CONTENDERS = [
    ("fit", 1),
    *((engine, clients) for engine in ("in-process", "worker") for clients in (2, 10, 50)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=3200, help="training images in all (default 3200)")
    parser.add_argument("--repeats", type=int, default=2, help="timed rounds after the first (default 2)")
    parser.add_argument("--passes", type=int, default=2, help="times the whole list is run (default 2)")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results")
    parser.add_argument("--one", nargs=2, metavar=("CONTENDER", "CLIENTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_measure(options.one[0], int(options.one[1]), options.images, options.repeats)))
        return
    _images(options.images)
    measured: dict[tuple[str, int], list[dict]] = {contender: [] for contender in CONTENDERS}
    for number in range(options.passes):
        for name, clients in CONTENDERS:
            print(f"pass {number + 1}: {name}, {clients} client(s)", file=sys.stderr, flush=True)
            measured[name, clients].append(_in_a_process(name, clients, options))
    _report(measured, options)


def _in_a_process(name: str, clients: int, options: argparse.Namespace) -> dict:
    arguments = [
        "--images",
        str(options.images),
        "--repeats",
        str(options.repeats),
        "--one",
        name,
        str(clients),
    ]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _report(measured: dict[tuple[str, int], list[dict]], options: argparse.Namespace) -> None:
    import pandas as pd

    rows = []
    for (name, clients), runs in measured.items():
        seconds = min(run["seconds"] for run in runs)
        rows.append(
            {
                "contender": name,
                "clients": clients,
                "images": options.images,
                "images_per_second": round(options.images / seconds, 1),
                "seconds_per_round": round(seconds, 2),
                "seconds_to_end_of_first_round": round(min(run["first"] for run in runs), 2),
                "peak_memory_mb": round(min(run["memory"] for run in runs)),
            }
        )
    table = pd.DataFrame(rows)
    fit = table.iloc[0]
    table["speed_of_fit"] = (table.images_per_second / fit.images_per_second).round(3)
    table["first_round_of_fit"] = (table.seconds_to_end_of_first_round / fit.seconds_to_end_of_first_round).round(2)
    for column, result in (
        ("seconds_per_round", "cost_of_two_clients"),
        ("peak_memory_mb", "memory_of_two_clients"),
    ):
        two = table[table.clients == 2].set_index("contender")[column]
        table[result] = [round(v / two[c], 3) if c in two else None for c, v in zip(table.contender, table[column])]
    path = options.results / "benchmarks" / "rounds.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)
    print(table.to_string(index=False))
    print(f"MobileNetV2 {SIZE}x{SIZE}, batch {BATCH}, one epoch a round, {os.cpu_count()} cores; table: {path}")


def _images(count: int) -> tuple[list[str], list[int]]:
    from tffapps.data import textures

    folder = ROOT / "data" / f"benchmark-{SIZE}-{count}"
    per_class = -(-count // CLASSES)
    textures.write_textures(folder, clients=1, per_class=per_class, size=SIZE, classes=CLASSES)
    paths = sorted(folder.rglob("*.png"), key=lambda path: (path.name, path.parent.name))[:count]
    return [str(path) for path in paths], [int(path.parent.name.rpartition("_")[2]) for path in paths]


def _measure(name: str, clients: int, count: int, repeats: int) -> dict:
    import tensorflow as tf

    from models import classifiers
    from tffapps.data import pipeline

    tf.get_logger().setLevel("FATAL")
    paths, labels = _images(count)

    def batches(rows: slice, seed: int) -> tf.data.Dataset:
        return pipeline.batches(
            paths[rows], labels[rows], size=(SIZE, SIZE), channels=3, batch=BATCH, seed=seed, formats=("png",)
        )

    begin = time.perf_counter()
    model = classifiers.build("mobilenetv2", input_shape=(SIZE, SIZE, 3), classes=CLASSES)
    play = _fit(model, batches) if name == "fit" else _federation(name, model, batches, count, clients)
    with play as (one_round, memory):
        one_round(0)
        first = time.perf_counter() - begin
        times = []
        for number in range(1, repeats + 1):
            start = time.perf_counter()
            one_round(number)
            times.append(time.perf_counter() - start)
        return {"first": first, "seconds": min(times), "memory": memory() / 2**20}


class _fit:
    def __init__(self, model, batches) -> None:
        model.compile("sgd", "sparse_categorical_crossentropy")
        self._round = lambda number: model.fit(batches(slice(None), number), verbose=0)

    def __enter__(self):
        return self._round, lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def __exit__(self, *_) -> None:
        pass


class _federation:
    def __init__(self, name: str, model, batches, count: int, clients: int) -> None:
        from tffapps.data import pipeline
        from tffapps.engine import open_engine
        from tffapps.federated.fedavg import FedAvg
        from tffapps.federated.round import build_round
        from tffapps.federated.task import Task, cross_entropy

        task = Task.of_batches(model, pipeline.element_spec((SIZE, SIZE), 3), cross_entropy)
        self._round = build_round(task, FedAvg())
        self._engine = open_engine(name)
        self._model, self._batches = model, batches
        bounds = [count * index // clients for index in range(clients + 1)]
        self._parts = [slice(low, high) for low, high in itertools.pairwise(bounds)]

    def __enter__(self):
        engine = self._engine.__enter__()
        self._state = self._round.start(self._model.get_weights())
        return self._play, engine.peak_memory

    def _play(self, number: int) -> None:
        datasets = [self._batches(part, number * 1000 + index) for index, part in enumerate(self._parts)]
        self._state = self._round.next(self._state, list(range(len(self._parts))), datasets).state

    def __exit__(self, *error) -> None:
        self._engine.__exit__(*error)


if __name__ == "__main__":
    main()
