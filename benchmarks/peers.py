"""This project beside others on the same work: rounds of many small clients, and stains of patches.

    python benchmarks/peers.py [--clients 2,50,1000] [--rounds 2] [--passes 1] [--no-install] [--only pfl,here]

Rounds: FedAvg of a network of 6.5 thousand parameters, plain SGD, 8 images of 32×32 a client, every client in every
round (`small_clients.py`). Engines here, plain `fit` over all images in batches of a client's size, pfl-research and
Flower's simulation, the others in environments of their own that are made from the package index. Everybody reads the
same PNG files in every round; those that can also with all images in memory beforehand, as they mostly have it. That
all do the same is checked: after the same rounds the weights must be those of the in-process engine. Who takes longer
than `--timeout` is ended, and the table says how far it was; with images in memory it is not tried again then.

Stains: 96×96 patches into a target's stains, one core.

Every contender in a process of its own, one after the other, the whole list `--passes` times; medians of rounds count.
Writes results/benchmarks/peers.csv and peer_stains.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SCRIPTS = ROOT / "benchmarks" / "contenders"
ROUNDS = (  # contender, its environment, its script, where images come from
    ("fit", "here", "run_here.py", "files"),
    ("in-process", "here", "run_here.py", "files"),
    ("in-process", "here", "run_here.py", "memory"),
    ("worker", "here", "run_here.py", "files"),
    ("pfl-research", "pfl", "run_pfl.py", "files"),
    ("pfl-research", "pfl", "run_pfl.py", "memory"),
    ("Flower", "flower", "run_flower.py", "files"),
    ("Flower", "flower", "run_flower.py", "memory"),
)
STAINS = (
    ("here macenko", "here"),
    ("torchstain macenko", "torchstain"),
    ("tiatoolbox macenko", "tiatoolbox"),
    ("staintools macenko", "staintools"),
    ("here vahadane", "here"),
    ("tiatoolbox vahadane", "tiatoolbox"),
    ("staintools vahadane", "staintools"),
)
_NOT_TRIED = "not tried: took too long from files"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_NEAR = 1e-4  # how far weights may be apart that are of the same work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", default="2,50,1000", help="(default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="timed, after the first (default %(default)s)")
    parser.add_argument("--passes", type=int, default=1, help="times the whole list is run (default %(default)s)")
    parser.add_argument("--only", default="", help="environments, of here, pfl, flower and those of stains")
    parser.add_argument("--environments", type=pathlib.Path, default=ROOT / "data" / "peers", help="kept here")
    parser.add_argument("--no-install", action="store_true", help="environments as they are, missing ones left out")
    parser.add_argument("--timeout", type=float, default=120, help="of one contender, seconds (default %(default)s)")
    parser.add_argument("--stain-seconds", type=float, default=5, help="of one contender (default %(default)s)")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "results")
    options = parser.parse_args()

    from benchmarks.peer_environments import python_of, why_not

    only = set(filter(None, options.only.split(",")))
    names = dict.fromkeys([name for _, name, *_ in ROUNDS] + [name for _, name in STAINS])
    options.environments.mkdir(parents=True, exist_ok=True)
    pythons = {
        name: python_of(name, options.environments.resolve(), not options.no_install)
        for name in names
        if not only or name in only
    }
    missing = {name: why_not(name, options.environments) for name, python in pythons.items() if not python}
    with tempfile.TemporaryDirectory() as folder:
        rows = _rounds(options, pythons, missing, pathlib.Path(folder))
        stains = _stains(options, pythons, missing, pathlib.Path(folder))
    for file, table in (("peers.csv", rows), ("peer_stains.csv", stains)):
        _write(options.results / "benchmarks" / file, table)


def _rounds(
    options: argparse.Namespace, pythons: dict[str, str | None], missing: dict[str, str], folder: pathlib.Path
) -> list[dict]:
    import numpy as np

    from benchmarks import small_clients

    counts = [int(text) for text in options.clients.split(",")]
    contenders = [one for one in ROUNDS if one[1] in pythons]
    paths, labels = small_clients.files(max(counts) * small_clients.IMAGES)
    weights = folder / "weights.npz"
    np.savez(weights, *_first_weights())
    measured: dict[tuple, list[dict]] = {}
    too_slow: dict[int, set[str]] = {}  # by the number of clients
    for turn in range(options.passes):
        for count in counts:
            for contender in contenders:
                name, environment, script, images = contender
                if not pythons[environment]:
                    continue
                print(f"pass {turn + 1}: {name}, {count} clients, images in {images}", file=sys.stderr, flush=True)
                if name in too_slow.get(count, ()):
                    measured.setdefault((contender, count), []).append({"failed": _NOT_TRIED})
                    continue
                parts = small_clients.parts(count)
                job = {
                    "contender": name,
                    "images": images,
                    "rounds": options.rounds,
                    "began": 0.0,
                    "timeout": options.timeout,
                    "progress": str(folder / "progress"),
                    "paths": [paths[part] for part in parts],
                    "labels": [labels[part] for part in parts],
                    "weights": str(weights),
                    "weights_out": str(folder / f"{name}-{images}-{count}.npz"),
                }
                command = [str(pythons[environment]), str(SCRIPTS / script)]
                played = _played(command, job, folder, options.timeout)
                print(f"  {played}", file=sys.stderr, flush=True)
                measured.setdefault((contender, count), []).append(played)
                if played.get("too_slow"):
                    too_slow.setdefault(count, set()).add(name)
    return [
        _row(contender, count, measured.get((contender, count)), missing.get(contender[1], ""), folder)
        for count in counts
        for contender in contenders
    ]


def _first_weights() -> list:
    """Of the network of `small_clients`, by a seed: Glorot's uniform, biases of zero. No TensorFlow here."""
    import numpy as np

    from benchmarks.small_clients import CHANNELS, CLASSES

    rng, flat, hidden = np.random.default_rng(0), 8 * 8 * 8, 12
    kernels = [
        ((3, 3, CHANNELS, 8), 9 * (CHANNELS + 8)),
        ((flat, hidden), flat + hidden),
        ((hidden, CLASSES), hidden + CLASSES),
    ]
    weights = []
    for shape, fans in kernels:
        limit = (6 / fans) ** 0.5
        weights += [rng.uniform(-limit, limit, shape).astype(np.float32), np.zeros(shape[-1], np.float32)]
    return weights


def _played(command: list[str], job: dict, folder: pathlib.Path, timeout: float) -> dict:
    from benchmarks import peer_process

    file, progress = folder / "job.json", pathlib.Path(job["progress"])
    progress.write_text("")
    file.write_text(json.dumps({**job, "began": time.time()}))
    log = pathlib.Path(tempfile.gettempdir()) / f"tffapps-peers-{job['contender']}.log"
    try:
        printed, memory = peer_process.run([*command, str(file)], timeout, log, PYTHONPATH=str(SCRIPTS))
    except peer_process.TooSlow as error:
        done, count = len(progress.read_text().split()), len(job["paths"])
        if job["contender"] != "Flower":
            return {"failed": f"{error}: {done} rounds", "too_slow": True}
        return {"failed": f"{error}: {done:,} of {count * (job['rounds'] + 1):,} clients", "too_slow": True}
    except RuntimeError as error:
        return {"failed": str(error)}
    return {**json.loads(_last_json(printed)), "memory": memory}


def _last_json(printed: str) -> str:
    return [line for line in printed.splitlines() if line.startswith("{")][-1]


def _row(contender: tuple, count: int, runs: list[dict] | None, missing: str, folder: pathlib.Path) -> dict:
    name, _, _, images = contender
    row = {"contender": name, "images": images, "clients": count}
    done = [run for run in runs or [] if "failed" not in run]
    if not done:
        return {**row, "note": runs[0]["failed"] if runs else missing}
    seconds = statistics.median(second for run in done for second in run["seconds"])
    off = _apart(folder / f"{name}-{images}-{count}.npz", folder / f"in-process-files-{count}.npz")
    same = name == "fit" or off is None or off < _NEAR
    return {
        **row,
        "seconds_per_round": round(seconds, 4),
        "ms_per_client": round(1000 * seconds / count, 3),
        "seconds_to_end_of_first_round": round(statistics.median(run["first"] for run in done), 2),
        "peak_memory_mb": round(max(run["memory"] for run in done) / 2**20),
        "weights_apart": None if name == "fit" else off,
        "versions": ", ".join(f"{package} {number}" for package, number in done[0]["versions"].items()),
        "note": "" if same else "trained something else",
    }


def _apart(one: pathlib.Path, other: pathlib.Path) -> float | None:
    import numpy as np

    if not (one.exists() and other.exists()):
        return None
    with np.load(one) as first, np.load(other) as second:
        return float(f"{max(float(np.abs(first[key] - second[key]).max()) for key in second.files):.2g}")


def _stains(
    options: argparse.Namespace, pythons: dict[str, str | None], missing: dict[str, str], folder: pathlib.Path
) -> list[dict]:
    import numpy as np

    from benchmarks import peer_process
    from tests.preprocessing.stains import patches

    file = folder / "patches.npy"
    np.save(file, patches(64)[0])
    speeds: dict[str, list[dict]] = {}
    for _ in range(options.passes):
        for name, environment in STAINS:
            if not pythons.get(environment):
                continue
            print(name, file=sys.stderr, flush=True)
            command = [str(pythons[environment]), str(SCRIPTS / "run_stains.py"), name, str(file)]
            log = pathlib.Path(tempfile.gettempdir()) / f"tffapps-peers-{environment}.log"
            try:
                printed, _ = peer_process.run(
                    [*command, str(options.stain_seconds)], options.timeout, log, **_ONE_THREAD
                )
                speeds.setdefault(name, []).append(json.loads(_last_json(printed)))
            except RuntimeError as error:
                speeds.setdefault(name, []).append({"failed": str(error)})
    rows = []
    for name, environment in STAINS:
        if environment not in pythons:
            continue
        library, method = name.split()
        row: dict = {"contender": library, "method": method}
        done = [run for run in speeds.get(name, []) if "failed" not in run]
        if done:
            row["patches_per_second"] = round(statistics.median(run["patches_per_second"] for run in done), 1)
            row["mean_colour"] = " ".join(f"{value:.0f}" for value in done[0]["mean"])
            row["versions"] = ", ".join(f"{package} {number}" for package, number in done[0]["versions"].items())
            row["note"] = ""
        else:
            row["note"] = speeds[name][0]["failed"] if name in speeds else missing.get(environment, "")
        rows.append(row)
    return rows


def _write(path: pathlib.Path, rows: list[dict]) -> None:
    import pandas as pd

    if not rows:
        return
    table = pd.DataFrame(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)
    print(table.to_string(index=False))
    print(f"{os.cpu_count()} cores; table: {path}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
