"""How long an artist takes to join a catalogue, and to leave it: the commands as they are typed, start to end.

    python benchmarks/enrol.py [--images 20] [--size 224] [--repeats 3]

A bundle of MobileNetV2 with random weights, which cost as much as any others, and drawn pictures; a process for each
command, the slowest of the repeats counts. Nobody else works. Writes results/benchmarks/enrol.csv.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20, help="pictures of the artist (default %(default)s)")
    parser.add_argument("--size", type=int, default=224, help="pixels on a side (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of which the slowest counts (default %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "enrol.csv")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

    import pandas as pd

    from benchmarks import predict
    from tffapps.fedstyle.catalogue import EMBEDDINGS

    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        drawn = argparse.Namespace(images=options.images, size=options.size, format="jpg")
        predict._images(folder / "pictures", drawn)
        bundle = predict._bundle(folder / "run", options.size)
        for kind in EMBEDDINGS:
            seconds = [_joined(folder, bundle, kind, number) for number in range(options.repeats)]
            rows.append({
                "embedding": kind, "pictures": options.images, "enrol_seconds": max(first for first, _ in seconds),
                "withdraw_seconds": max(second for _, second in seconds), "cores": os.cpu_count(),
            })  # fmt: skip
            print(rows[-1], file=sys.stderr, flush=True)
    table = pd.DataFrame(rows).round(1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.to_string(index=False))


def _joined(folder: pathlib.Path, bundle: pathlib.Path, kind: str, number: int) -> tuple[float, float]:
    """Seconds of joining a new catalogue, and of leaving it."""
    key = folder / f"{kind}-{number}.json"
    enrol = [
        "enrol", bundle, folder / "pictures", "--name", "Ada", "--embedding", kind, "--consent",
        "--catalogue", folder / f"{kind}-{number}.db", "-o", key,
    ]  # fmt: skip
    return _seconds(enrol), _seconds(["withdraw", key])


def _seconds(arguments: list) -> float:  # type: ignore[type-arg]
    begin = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tffapps", "fedstyle", *map(str, arguments)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
