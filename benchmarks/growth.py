"""Cost grows as the work does: seconds and memory against clients, images and parameters, and the exponents.

    python benchmarks/growth.py [--results results]

FedAvg in-process, plain SGD, one epoch a round, every client in every round. One thing grows at a time:

    clients      2 … 2,000, of 8 images of 32×32, a network of 6,510 parameters
    images       8 … 2,048 of each of 10 clients, in batches of 32, the same network
    parameters   6.5 thousand … 5.2 million (a wider dense layer), 10 clients of 8 images

Images are drawn in memory in each client's turn. Every point is a process of its own, so that its memory is its own.
The fastest of the rounds after the first counts; memory is by how much rounds took the process's peak above what it
was before the first of them (TensorFlow, and a built round: `before_mb`). The exponent is the slope of a straight line
through the logarithms, by least squares: 1 is "twice the work, twice the cost", 0 "always the same".
Writes results/benchmarks/growth.csv and growth.png.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import time
from typing import Any

import small_clients as workload

AXES: dict[str, list[tuple[int, int, int]]] = {  # what grows: (clients, images of each, width of the dense layer)
    "clients": [(clients, 8, 12) for clients in (2, 10, 50, 200, 1000, 2000)],
    "images": [(10, images, 12) for images in (8, 32, 128, 512, 2048)],
    "parameters": [(10, 8, width) for width in (12, 100, 1000, 10_000)],
}
COSTS = {"seconds_per_round": "seconds a round", "memory_mb": "memory of rounds, MB"}
LEAST_MB = 1.0  # less memory than that is not told apart from none


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="timed, after the first (default %(default)s)")
    parser.add_argument("--results", type=pathlib.Path, default=workload.ROOT / "results")
    parser.add_argument("--most", type=int, default=10**9, help="images of all clients at most (default: no limit)")
    parser.add_argument("--one", nargs=3, type=int, metavar=("CLIENTS", "IMAGES", "WIDTH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_measure(*options.one, options.rounds)))
        return
    every = (point for axis in AXES.values() for point in axis)  # one of them is on all axes
    points = dict.fromkeys(point for point in every if point[0] * point[1] <= options.most)
    measured: dict[tuple[int, int, int], dict[str, float]] = {}
    for number, point in enumerate(points, 1):
        what = "{:,} clients of {:,} images, dense layer of {:,}".format(*point)
        print(f"{number} of {len(points)}: {what}", file=sys.stderr, flush=True)
        measured[point] = _in_a_process(point, options.rounds)
    rows = [
        {"grows": axis, **measured[point], "value": measured[point][axis]}
        for axis, points_of in AXES.items()
        for point in points_of
        if point in measured
    ]
    _report(rows, options.results / "benchmarks")


def _in_a_process(point: tuple[int, int, int], rounds: int) -> dict[str, float]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, "--rounds", str(rounds), "--one", *map(str, point)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def exponent(values: list[float], costs: list[float]) -> float:
    """The slope of the line through (log value, log cost) that is nearest by least squares; nan of one point."""
    xs, ys = [math.log(value) for value in values], [math.log(cost) for cost in costs]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / spread if spread else math.nan


def _report(rows: list[dict[str, Any]], folder: pathlib.Path) -> None:
    import pandas as pd

    table = pd.DataFrame(rows)
    for cost in COSTS:
        slopes = {axis: exponent(list(part.value), list(part[cost])) for axis, part in table.groupby("grows")}
        table[f"exponent_of_{cost}"] = [round(slopes[axis], 3) for axis in table.grows]
    folder.mkdir(parents=True, exist_ok=True)
    table.drop(columns="value").to_csv(folder / "growth.csv", index=False)
    draw(table, folder / "growth.png")
    print(table.drop(columns="value").to_string(index=False))
    print(f"{os.cpu_count()} cores; {folder / 'growth.csv'}, {folder / 'growth.png'}")


def draw(table: Any, path: pathlib.Path) -> None:
    """Seconds above, memory below; a column for each thing that grows, with its line."""
    from tffapps.figures import Canvas

    title = "FedAvg in-process: one round, as one thing grows"
    with Canvas(path, len(COSTS), len(AXES), width=4, height=3, title=title) as canvas:
        for row, (cost, label) in enumerate(COSTS.items()):
            for column, axis in enumerate(AXES):
                axes, part = canvas.axes[row, column], table[table.grows == axis]
                slope = float(part[f"exponent_of_{cost}"].iloc[0])
                axes.loglog(part.value, part[cost], "o", color="C0")
                middle = [math.exp(sum(map(math.log, values)) / len(part)) for values in (part.value, part[cost])]
                line = [middle[1] * (value / middle[0]) ** slope for value in part.value]
                axes.loglog(part.value, line, "--", color="C1", label=f"exponent {slope:.2f}")
                axes.set(xlabel=axis if row else "", ylabel="" if column else label)
                axes.grid(alpha=0.3)
                axes.legend(frameon=False)
                if part[cost].max() < 10 * part[cost].min():  # a decade at least: what is flat must look flat
                    middle_log = math.log10(middle[1])
                    axes.set_ylim(10 ** (middle_log - 0.7), 10 ** (middle_log + 0.7))


def _measure(clients: int, images: int, width: int, rounds: int) -> dict[str, float]:
    import numpy as np
    import tensorflow as tf

    from tffapps.data import pipeline
    from tffapps.engine import replace_default_context
    from tffapps.federated.cohort import Client, play
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task, cross_entropy

    tf.get_logger().setLevel("FATAL")
    replace_default_context()
    model = workload.network(width)
    shape = (workload.SIDE, workload.SIDE, workload.CHANNELS)
    task = Task.of_batches(model, pipeline.element_spec(shape[:2], shape[2]), cross_entropy)
    round_ = build_round(task, FedAvg(learning_rate=workload.LEARNING_RATE))

    def client(place: int) -> Client:
        def data(number: int) -> tf.data.Dataset:
            rng = np.random.default_rng(place)
            labels = rng.integers(0, workload.CLASSES, images).astype(np.int32)
            return pipeline.from_arrays(rng.random((images, *shape), np.float32), labels, batch=32, seed=number)

        return Client(str(place), data)

    everybody = [client(place) for place in range(clients)]
    state, before, seconds = round_.start(model.get_weights()), _peak_mb(), []
    for number in range(rounds + 1):
        begin = time.perf_counter()
        outcome = play(round_, state, everybody, number, min_clients=clients)
        seconds.append(time.perf_counter() - begin)
        assert outcome.examples == clients * images
        state = outcome.state
    return {
        "clients": clients,
        "images": clients * images,
        "parameters": model.count_params(),
        "seconds_per_round": round(min(seconds[1:]), 4),
        "seconds_of_first_round": round(seconds[0], 2),
        "memory_mb": round(max(LEAST_MB, _peak_mb() - before), 1),
        "before_mb": round(before),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
