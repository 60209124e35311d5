"""Federations of two and three sites on this machine against the same rounds in one process: time, bytes on the wire.

    python benchmarks/sites.py [--images 3200] [--model mobilenetv2] [--repeats 3]

    open       sites whose gate lets everything pass, without a sandbox: what TLS, relay and processes cost alone
    closed     sites as `site serve` makes them; the difference is what gate and sandbox cost
    secure     closed, under `--aggregator secure`: the difference is what masks cost

All train the same network on as many files. The sites share this machine's cores, and work at the same time; in one
process the clients take turns. Where there are as many cores as sites each site has its own, as sites are machines of
their own: else their threads push one another aside. The best round counts, beside that of one process with as many
clients. Bytes are those of a later round (the first also sends the computation), as messages; `door_share` is how much
more the sites' doors saw in all, HTTP/2 included and TLS not. Writes results/benchmarks/sites.csv.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
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
SIZE, BATCH, CLASSES = 64, 32, 3
_IN_PROCESS = "in-process"
_LEFT = re.compile(r"left after .* s, (\d+) bytes received, (\d+) bytes sent")
# `site serve` whose gate lets everything pass.
_OPEN = """
import sys
from tffapps.site import __main__, gatehouse
made = gatehouse.Gatehouse.__init__
def without_guards(self, *arguments, **named):
    made(self, *arguments, **named)
    self.guards = []
gatehouse.Gatehouse.__init__ = without_guards
sys.exit(__main__.main(sys.argv[1:]))
"""


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    clients: int
    kind: str = "closed"
    secure: bool = False


CONTENDERS = (
    Contender(_IN_PROCESS, 2, _IN_PROCESS),
    Contender("2 sites, open", 2, "open"),
    Contender("2 sites", 2),
    Contender("in-process, 3 clients", 3, _IN_PROCESS),
    Contender("3 sites", 3),
    Contender("3 sites, secure", 3, secure=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--images", type=int, default=3200, help="images in all, 7 of 10 for training (default %(default)s)"
    )
    parser.add_argument("--model", default="mobilenetv2", help="(default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="timed rounds after the first (default %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "sites.csv")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # an engine's name; the files are then in --certificates
    parser.add_argument("--clients", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--secure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--certificates", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_measure(options)))
        return
    _report([_row(contender, options) for contender in CONTENDERS], options)


def _row(contender: Contender, options: argparse.Namespace) -> dict:
    print(f"{contender.name} …", file=sys.stderr, flush=True)
    data = _images(options.images, contender.clients)
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder, engine = pathlib.Path(place), _IN_PROCESS
        if contender.kind != _IN_PROCESS:
            engine = ",".join(stack.enter_context(_sites(data, folder, contender.kind == "open")))
        found = {"contender": contender.name, **_in_a_process(engine, contender, options, folder)}
        stack.close()
        seen, said = sum(_door_bytes(folder)), found["total_sent"] + found["total_received"]
        return {**found, "door_share": round(seen / said - 1, 4) if said else None}


def _report(rows: list[dict], options: argparse.Namespace) -> None:
    import pandas as pd

    table = pd.DataFrame(rows)
    alone = {one.clients: row["seconds_per_round"] for one, row in zip(CONTENDERS, rows) if one.kind == _IN_PROCESS}
    base = pd.Series([alone[one.clients] for one in CONTENDERS])
    table["time_of_in_process"] = (table.seconds_per_round / base).round(3)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(table.T.to_string())
    print(f"{options.model} {SIZE}x{SIZE}, batch {BATCH}, {os.cpu_count()} cores; {options.out}")


def _in_a_process(engine: str, contender: Contender, options: argparse.Namespace, folder: pathlib.Path) -> dict:
    arguments = ["--one", engine, "--images", str(options.images), "--model", options.model]
    arguments += ["--clients", str(contender.clients), *(["--secure"] if contender.secure else [])]
    arguments += ["--repeats", str(options.repeats), "--certificates", str(folder / "certificates")]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def _sites(data: pathlib.Path, folder: pathlib.Path, is_open: bool) -> Iterator[list[str]]:
    """Runs `site serve` for every client of the data, at home in a folder of its own; its logs are <client>.log."""
    from tffapps.data import manifest
    from tffapps.site import certs

    names = sorted(set(manifest.load(data, []).client))
    certs.write(folder / "certificates", names)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFFAPPS_HOME": str(folder / "home")}
    program = ["-c", _OPEN] if is_open else ["-m", "tffapps.site"]
    with contextlib.ExitStack() as stack:
        addresses, cores = [], sorted(os.sched_getaffinity(0))
        for place, name in enumerate(names):
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            flags = [f"--{flag}={file}" for flag, file in _files(folder / "certificates", name).items()]
            flags += ["--without-sandbox"] if is_open else []
            serve = [sys.executable, *program, "serve", f"--data={data}", f"--name={name}"]
            site = subprocess.Popen(
                [*serve, "--listen=127.0.0.1:0", *flags], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
            if len(cores) >= len(names):
                os.sched_setaffinity(site.pid, cores[place :: len(names)])
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


def _images(count: int, clients: int) -> pathlib.Path:
    from tffapps.data import textures

    folder = ROOT / "data" / f"benchmark-sites-{SIZE}-{count}-{clients}"
    textures.write_textures(folder, clients=clients, per_class=-(-count // CLASSES // clients), size=SIZE)
    return folder


def _measure(options: argparse.Namespace) -> dict:
    import tensorflow as tf

    from models import classifiers
    from models.initialise import seed_weights
    from tffapps.data import manifest as manifests
    from tffapps.data import pipeline, published
    from tffapps.engine import addresses, open_engine
    from tffapps.federated.aggregation import Aggregation
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
        table = (
            published.manifest(engine.sites, [])
            if sites
            else manifests.load(_images(options.images, options.clients), [])
        )
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

            return Client(name, batches, examples=len(rows))

        clients = [client(place, name) for place, name in enumerate(sorted(set(training.client)))]
        model = classifiers.build(options.model, input_shape=(SIZE, SIZE, 3), classes=len(classes))
        seed_weights(model, 0)
        spec = pipeline.element_spec((SIZE, SIZE), 3)
        round_ = build_round(
            Task.of_batches(model, spec, cross_entropy), FedAvg(learning_rate=0.01),
            Aggregation("secure" if options.secure else "mean"), len(clients), across_sites=bool(sites),
        )  # fmt: skip
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
            "sent_a_client": last[0] // len(clients),
            "received_a_client": last[1] // len(clients),
            "sent_of_weights": round(last[0] / len(clients) / size, 4),
            "received_of_weights": round(last[1] / len(clients) / size, 4),
            "total_sent": counts[-1][0],
            "total_received": counts[-1][1],
            "coordinator_memory_mb": round(engine.peak_memory() / 2**20),
        }


if __name__ == "__main__":
    main()
