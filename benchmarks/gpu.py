"""Does this project run as it should on the GPUs of this machine? A verdict in about five minutes.

    python benchmarks/gpu.py                      on all GPUs that TensorFlow sees; exit status 2 if there is none
    python benchmarks/gpu.py --logical-cpus 2     a rehearsal on parts of the processor, for machines without one

Plays the same rounds on the processor, on one device and on all of them, each in a process of its own, and says:

    same numbers   how far the weights are from the processor's; the tolerance is --tolerance
    all in use     how many clients each device has worked for
    images/s       of the rounds after the first, and in which precision
    memory         the most that each GPU has had in use

Exit status 0: all is as it should be; 1: something is not; 2: there is no GPU. Keep what it prints: it belongs into
an issue or into docs/engines.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
CLASSES = 3
PROCESSOR, ONE, ALL = "processor", "one device", "all devices"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logical-cpus", type=int, default=0, metavar="N", help="rehearse on parts of the processor")
    parser.add_argument("--network", default="mobilenetv2", help="of models.names (default mobilenetv2)")
    parser.add_argument("--size", type=int, default=96, help="of the images, in pixels (default 96)")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--images", type=int, default=128, help="of each client (default 128)")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2, help="timed, after the first (default 2)")
    parser.add_argument("--precisions", default="float32,bfloat16,float16", help="on all devices (default all three)")
    parser.add_argument("--tolerance", type=float, default=5e-3, help="of the weights (default 5e-3)")
    parser.add_argument("--one", nargs=3, metavar=("PLACE", "PRECISION", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_play(options, *options.one)))
        return 0
    devices = options.logical_cpus or _gpus()
    if not devices:
        print("no GPU that TensorFlow sees: nothing was tried (--logical-cpus 2 rehearses on the processor)")
        return 2
    kind = "parts of the processor: a rehearsal, which says nothing of a GPU" if options.logical_cpus else "GPU(s)"
    print(f"{devices} {kind}; {options.network} {options.size}x{options.size}, {options.clients} clients", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wrong = list(_judged(options, devices, pathlib.Path(folder)))
    for line in wrong:
        print(f"WRONG    {line}")
    print("verdict: as it should be" if not wrong else f"verdict: {len(wrong)} thing(s) are not as they should be")
    return 1 if wrong else 0


def _gpus() -> int:
    code = "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))"
    return int(_run([sys.executable, "-c", code], {}))


def _judged(options: argparse.Namespace, devices: int, folder: pathlib.Path):
    """Prints what was measured; yields what is wrong."""
    import numpy as np

    precisions = options.precisions.split(",")
    one = [] if options.logical_cpus else [(ONE, "float32")]  # in a rehearsal that is the processor
    contenders = [(PROCESSOR, "float32"), *one, *((ALL, precision) for precision in precisions)]
    reference = None
    for number, (place, precision) in enumerate(contenders):
        file = folder / f"{number}.npz"
        try:
            measured = _in_a_process(options, place, precision, file)
        except subprocess.CalledProcessError as error:
            yield f"{place}, {precision}: failed with exit status {error.returncode}; what it said is above"
            continue
        with np.load(file) as content:
            weights = [content[name] for name in content.files]
        memory = ", ".join(f"{name} {size / 2**20:.0f} MB" for name, size in measured["memory"].items())
        used = ", ".join(f"{name}: {count}" for name, count in measured["used"].items())
        print(f"{place:12} {precision:9} {measured['images_per_second']:9.1f} images/s   clients on {used}   {memory}")
        if reference is None:
            reference = weights
            continue
        difference = max(float(np.abs(mine - theirs).max()) for mine, theirs in zip(weights, reference))
        print(f"{'':12} {'':9} largest difference of weights from the processor's: {difference:.2g}", flush=True)
        if not difference <= (options.tolerance if precision == "float32" else 1.0):
            yield f"{place}, {precision}: weights differ by {difference:.2g} from the processor's"
        wanted = devices if place == ALL else 1
        if len(measured["used"]) != wanted:
            yield f"{place}, {precision}: {len(measured['used'])} devices worked, and not {wanted}"
        if not options.logical_cpus and not all("GPU" in name for name in measured["used"]):
            yield f"{place}, {precision}: clients ran on the processor"


def _in_a_process(options: argparse.Namespace, place: str, precision: str, file: pathlib.Path) -> dict:
    names = ("network", "size", "clients", "images", "batch", "rounds", "logical_cpus")
    arguments = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    hidden = {"CUDA_VISIBLE_DEVICES": "-1"} if place == PROCESSOR else {}
    return json.loads(_run([sys.executable, __file__, *arguments, "--one", place, precision, str(file)], hidden))


def _run(command: list[str], variables: dict[str, str]) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore", **variables}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    return done.stdout.splitlines()[-1]


def _play(options: argparse.Namespace, place: str, precision: str, file: str) -> dict:
    """Rounds on the processor, on one device, or on all."""
    from tffapps.engine import open_engine

    wanted = (str(options.logical_cpus) if options.logical_cpus else "all") if place == ALL else "1"
    with open_engine("in-process", devices=wanted):
        import numpy as np

        from models.assembled import assemble
        from tffapps.data import pipeline
        from tffapps.federated.fedavg import FedAvg
        from tffapps.federated.round import build_round
        from tffapps.federated.task import Task, cross_entropy

        used = _count_devices()
        shape = (options.size, options.size, 3)
        model = assemble(options.network, input_shape=shape, classes=CLASSES, head="gap", precision=precision).whole
        task = Task.of_batches(model, pipeline.element_spec(shape[:2], 3), cross_entropy)
        round_ = build_round(task, FedAvg(learning_rate=0.01))
        rng = np.random.default_rng(0)
        labels = rng.integers(0, CLASSES, (options.clients, options.images)).astype(np.int32)
        images = rng.random((*labels.shape, *shape), np.float32)
        clients = list(range(options.clients))
        state, seconds = round_.start(model.get_weights()), []
        for number in range(options.rounds + 1):
            begin = time.perf_counter()
            data = [
                pipeline.from_arrays(images[client], labels[client], batch=options.batch, seed=1000 * number + client)
                for client in clients
            ]
            state = round_.next(state, clients, data).state
            seconds.append(time.perf_counter() - begin)
        np.savez(file, *state.weights)
        rate = options.clients * options.images / min(seconds[1:])
        return {"images_per_second": rate, "used": used, "memory": _memory()}


def _count_devices() -> dict[str, int]:
    """Filled while rounds are played: the device that a client's results are on → clients."""
    import tensorflow as tf

    from tffapps.engine.in_process import Run

    used: dict[str, int] = collections.Counter()
    work = Run._answer  # a client's tensors, in one call

    def counted(self, *arguments):
        done = work(self, *arguments)
        devices = {tf.DeviceSpec.from_string(tensor.device) for tensor in done}
        # Small whole numbers are kept by the processor, also of work that a GPU has done.
        kinds = {f"{device.device_type}:{device.device_index}" for device in devices}
        used.update(sorted(kind for kind in kinds if "GPU" in kind) or sorted(kinds)[-1:])
        return done

    Run._answer = counted
    return used


def _memory() -> dict[str, int]:
    import tensorflow as tf

    gpus = [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices("GPU")]
    return {name: tf.config.experimental.get_memory_info(name)["peak"] for name in gpus}


if __name__ == "__main__":
    sys.exit(main())
