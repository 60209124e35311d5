"""A federation of two sites on this machine against the same rounds in one process: time, and bytes on the wire.

    python benchmarks/sites.py [--images 3200] [--model mobilenetv2] [--repeats 3]

Both train the same network on the same files. The two sites share this machine's cores, and work at the same time; in
one process the clients take turns. The best round counts. Bytes are those of a later round (the first also sends the
computation), as messages; `door_share` is how much more the sites' doors saw in all, HTTP/2 included and TLS not.
Writes results/benchmarks/sites.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
SIZE, BATCH, CLASSES, CLIENTS = 64, 32, 3, 2
_LEFT = re.compile(r"left after .* s, (\d+) bytes received, (\d+) bytes sent")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=3200, help="training images in all (default %(default)s)")
    parser.add_argument("--model", default="mobilenetv2", help="(default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="timed rounds after the first (default %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "sites.csv")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # an engine's name; the files are then in --certificates
    parser.add_argument("--certificates", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_measure(options)))
        return
    data = _images(options.images)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        rows = [_in_a_process("in-process", options, folder)]
        with _sites(data, folder) as addresses:
            rows.append(_in_a_process(",".join(addresses), options, folder))
        _report(rows, _door_bytes(folder), options)


def _report(rows: list[dict], door: tuple[int, int], options: argparse.Namespace) -> None:
    import pandas as pd

    table = pd.DataFrame(rows)
    table.insert(0, "contender", ["in-process", f"{CLIENTS} sites"])
    table["time_of_in_process"] = (table.seconds_per_round / table.seconds_per_round[0]).round(3)
    sites = table.iloc[1]
    table["door_share"] = [None, round(sum(door) / (sites.total_sent + sites.total_received) - 1, 4)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.T.to_string())
    print(f"{options.model} {SIZE}x{SIZE}, batch {BATCH}, {CLIENTS} clients, {os.cpu_count()} cores; {options.out}")


def _in_a_process(engine: str, options: argparse.Namespace, folder: pathlib.Path) -> dict:
    print(f"{engine} …", file=sys.stderr, flush=True)
    arguments = ["--one", engine, "--images", str(options.images), "--model", options.model]
    arguments += ["--repeats", str(options.repeats), "--certificates", str(folder / "certificates")]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def _sites(data: pathlib.Path, folder: pathlib.Path) -> Iterator[list[str]]:
    """Runs `site serve` for every client of the data; its logs are <client>.log."""
    from tffapps.data import manifest
    from tffapps.site import certs

    names = sorted(set(manifest.load(data, []).client))
    certs.write(folder / "certificates", names)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with contextlib.ExitStack() as stack:
        addresses = []
        for name in names:
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            flags = [f"--{flag}={file}" for flag, file in _files(folder / "certificates", name).items()]
            serve = [sys.executable, "-m", "tffapps.site", "serve", f"--data={data}", f"--name={name}"]
            site = subprocess.Popen(
                [*serve, "--listen=127.0.0.1:0", *flags], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
            stack.callback(site.wait)
            stack.callback(site.terminate)
            assert site.stdout is not None
            addresses.append(site.stdout.readline().partition("listening on ")[2].split(",")[0])
        yield addresses


def _files(folder: pathlib.Path, name: str) -> dict[str, str]:
    return {"cert": str(folder / f"{name}.pem"), "key": str(folder / f"{name}.key"), "ca": str(folder / "ca.pem")}


def _door_bytes(folder: pathlib.Path) -> tuple[int, int]:
    found = [_LEFT.search(line) for log in folder.glob("*.log") for line in log.read_text().splitlines()]
    pairs = [(int(match[1]), int(match[2])) for match in found if match]
    return sum(received for received, _ in pairs), sum(sent for _, sent in pairs)


def _images(count: int) -> pathlib.Path:
    from tffapps.data import textures

    folder = ROOT / "data" / f"benchmark-sites-{SIZE}-{count}"
    textures.write_textures(folder, clients=CLIENTS, per_class=-(-count // CLASSES // CLIENTS), size=SIZE)
    return folder


def _measure(options: argparse.Namespace) -> dict:
    import tensorflow as tf

    from models import classifiers
    from models.initialise import seed_weights
    from tffapps.data import manifest as manifests
    from tffapps.data import pipeline, published
    from tffapps.engine import addresses, open_engine
    from tffapps.federated.cohort import Client, play, stream
    from tffapps.federated.fedavg import FedAvg
    from tffapps.federated.round import build_round
    from tffapps.federated.task import Task, cross_entropy
    from tffapps.wire.certificates import Certificates

    tf.get_logger().setLevel("FATAL")
    begin = time.perf_counter()
    sites = addresses(options.one)
    certificates = Certificates(**_files(options.certificates, "coordinator")) if sites else None
    with open_engine(options.one, certificates) as engine:
        table = published.manifest(engine.sites, []) if sites else manifests.load(_images(options.images), [])
        classes = manifests.classes(table)
        training = table[table.split == "train"]

        def client(place: int, name: str) -> Client:
            rows = training[training.client == name]
            codes = [classes.index(label) for label in rows.label]

            def batches(number: int) -> tf.data.Dataset:
                return pipeline.batches(
                    list(rows.path), codes, size=(SIZE, SIZE), channels=3, batch=BATCH, formats=("png",),
                    seed=stream(0, number, place),
                )  # fmt: skip

            return Client(name, batches)

        clients = [client(place, name) for place, name in enumerate(sorted(set(training.client)))]
        model = classifiers.build(options.model, input_shape=(SIZE, SIZE, 3), classes=len(classes))
        seed_weights(model, 0)
        spec = pipeline.element_spec((SIZE, SIZE), 3)
        round_ = build_round(Task.of_batches(model, spec, cross_entropy), FedAvg(learning_rate=0.01))
        state = round_.start(model.get_weights())
        times, counts = [], [(0, 0)]
        for number in range(1, options.repeats + 2):
            start = time.perf_counter()
            state = play(round_, state, clients, number, min_clients=len(clients)).state
            times.append(time.perf_counter() - start)
            counts.append(engine.context.traffic() if sites else (0, 0))
            if number == 1:
                first = time.perf_counter() - begin
        size = sum(value.nbytes for value in model.get_weights())
        last = [after - before for after, before in zip(counts[-1], counts[-2])]
        return {
            "images": len(training),
            "seconds_per_round": round(min(times[1:]), 3),
            "images_per_second": round(len(training) / min(times[1:]), 1),
            "seconds_to_end_of_first_round": round(first, 2),
            "weights_bytes": size,
            "sent_a_client": last[0] // CLIENTS,
            "received_a_client": last[1] // CLIENTS,
            "sent_of_weights": round(last[0] / CLIENTS / size, 4),
            "received_of_weights": round(last[1] / CLIENTS / size, 4),
            "total_sent": counts[-1][0],
            "total_received": counts[-1][1],
            "coordinator_memory_mb": round(engine.peak_memory() / 2**20),
        }


if __name__ == "__main__":
    main()
