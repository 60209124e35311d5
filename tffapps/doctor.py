"""Is this machine fit to run? `python -m tffapps.doctor`

Prints versions, devices and how many images a second each trains a tiny network with, memory, disk and, for each
engine, the result of a tiny federated computation run in a process of its own under a timeout. What is wrong comes with
what to do about it; exit status 1 then. Advice (a GPU that is not used, little memory or disk) does not stop anything.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from importlib import metadata
from typing import Any

from preprocessing.parser import Parser
from tffapps import cli, engine
from tffapps.engine import devices

PACKAGES = (
    "tensorflow", "tensorflow-federated", "keras", "numpy", "opencv-python-headless", "scikit-learn", "scikit-image",
    "pandas", "matplotlib", "jax", "grpcio",
)  # fmt: skip
EXPECTED_MEAN = 2.5  # of the clients' values 1, 2, 3, 4
MEASURED_SECONDS, MEASURED_BATCH, MEASURED_SIZE = 1.0, 32, 64
LEAST_MEMORY_GB, LEAST_DISK_GB = 4, 2
REINSTALL = "remove .venv and run `bash run_all.sh`, which installs the pinned packages"


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog=cli.called_as("doctor"), description="Is this machine fit to run?")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for each engine (default 120)")
    parser.add_argument("--probe", choices=engine.NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(_measured()))
        return 0
    if options.probe:
        print(_probe(options.probe))
        return 0
    problems = [*_platform(), *_packages()]
    advice = [*_memory_and_disk(), *_sandbox()]
    if not problems:  # TensorFlow is worth asking only where it can be there
        advice += _devices(options.timeout)
        for name in engine.NAMES:
            problems += _engine(name, options.timeout)
    for line in advice:
        print(f"ADVICE   {line}")
    for line in problems:
        print(f"PROBLEM  {line}")
    print("everything works" if not problems else f"{len(problems)} problem(s)")
    return 1 if problems else 0


def _line(name: str, value: str) -> None:
    print(f"{name:24} {value}", flush=True)


def _platform() -> list[str]:
    _line("python", f"{platform.python_version()} ({sys.executable})")
    _line("platform", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    problems = []
    if not (3, 10) <= sys.version_info[:2] <= (3, 11):
        problems.append(f"Python {platform.python_version()}: 3.10 and 3.11 are supported; {REINSTALL}")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        problems.append("TFF ships for Linux on x86-64 only; use such a machine, a container or WSL 2")
    return problems


def _packages() -> list[str]:
    problems = []
    for name in PACKAGES:
        try:
            _line(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            problems.append(f"{name} is not installed; {REINSTALL}")
    return problems


def _memory_and_disk() -> list[str]:
    advice = []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    disk = shutil.disk_usage(".").free / 2**30
    _line("memory", f"{memory:.1f} GiB")
    _line("free disk here", f"{disk:.1f} GiB")
    if memory < LEAST_MEMORY_GB:
        advice.append(
            f"{memory:.1f} GiB of memory; runs need {LEAST_MEMORY_GB} or more (smaller --batch and --size help)"
        )
    if disk < LEAST_DISK_GB:
        advice.append(f"{disk:.1f} GiB of free disk; results and caches need {LEAST_DISK_GB} or more (see --results)")
    return advice


def _sandbox() -> list[str]:
    """What `site serve` needs of the kernel, and what it uses where it is there."""
    from tffapps.engine import landlock, sandbox, seccomp

    version, filters = landlock.version(), seccomp.available()
    _line("Landlock", f"version {version}" if version else "no")
    _line("seccomp filters", "yes" if filters else "no")
    refused = sandbox.namespaces_refused()
    _line("namespaces", f"no ({refused})" if refused else "private network, processes and shared memory")
    lacks = sandbox.lacks()
    what = f"this kernel has no {' and '.join(lacks)}: `site serve` has no sandbox here"
    closed = "this kernel allows no namespaces: `site serve` cannot close TFF's worker to the network"
    return [*([what] if lacks else []), *([closed] if refused else [])]


def _devices(timeout: float) -> list[str]:
    status, output, _ = _run([sys.executable, "-m", "tffapps.doctor", "--measure"], timeout)
    if status is None:
        return [f"TensorFlow did not answer within {timeout:g} s; try a longer --timeout"]
    if status != 0:
        return [f"TensorFlow cannot be imported ({output}); {REINSTALL}"]
    found = json.loads(output)
    for each in found:
        rate = f"trains tiny at {MEASURED_SIZE}x{MEASURED_SIZE} with {each['images_per_second']:.0f} images/s"
        _line(f"device {each['name']}", ", ".join(part for part in (each["what"], each["memory"], rate) if part))
    if not any("GPU" in each["name"] for each in found) and shutil.which("nvidia-smi"):
        return [
            "a GPU is there but TensorFlow does not see it; `pip install --no-deps -r requirements-gpu.txt` into .venv"
        ]
    return []


def _engine(name: str, timeout: float) -> list[str]:
    status, output, seconds = _run([sys.executable, "-m", "tffapps.doctor", "--probe", name], timeout)
    if status is None:
        return [f"engine {name}: no result within {timeout:g} s; try --timeout 600, or another --engine"]
    if status != 0 or output != f"mean {EXPECTED_MEAN}":
        return [f"engine {name}: {output or f'exit status {status}'}; {REINSTALL}"]
    _line(f"engine {name}", f"federated mean of 1, 2, 3, 4 = {output.split()[1]} ({seconds:.1f} s)")
    return []


def _run(command: list[str], timeout: float) -> tuple[int | None, str, float]:
    """Exit status (None: out of time), the last line of output, seconds. Nothing is left running."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return None, "", timeout
    text = (done.stdout if done.returncode == 0 else done.stderr).strip()
    return done.returncode, (text.splitlines() or [""])[-1], time.monotonic() - begin


def _measured() -> list[dict[str, Any]]:
    """Each device that clients can run on: the GPUs, or the processor. A second of training on each."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        what = f"{devices.cores()} of {os.cpu_count()} cores"
        return [{"name": "CPU:0", "what": what, "memory": "", "images_per_second": _images_per_second("/CPU:0")}]
    found = []
    for number, gpu in enumerate(gpus):
        what = str(tf.config.experimental.get_device_details(gpu).get("device_name", ""))
        rate = _images_per_second(f"/GPU:{number}")
        used = tf.config.experimental.get_memory_info(f"GPU:{number}")["peak"] / 2**20
        memory = f"{_gpu_memory(number)}{used:.0f} MB used"
        found.append({"name": f"GPU:{number}", "what": what, "memory": memory, "images_per_second": rate})
    return found


def _gpu_memory(number: int) -> str:
    """What the driver says of it, which TensorFlow does not; nothing where it cannot be asked."""
    query = ["nvidia-smi", f"--id={number}", "--query-gpu=memory.total,memory.free", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=5, check=True).stdout.strip().split(", ")
        return f"{said[0]} and {said[1]} of it free, "
    except (OSError, subprocess.SubprocessError, IndexError):
        return ""


def _images_per_second(device: str) -> float:
    import tensorflow as tf

    from models import classifiers

    with tf.device(device):
        model = classifiers.build("tiny", input_shape=(MEASURED_SIZE, MEASURED_SIZE, 3), classes=3)
        images = tf.random.uniform([MEASURED_BATCH, MEASURED_SIZE, MEASURED_SIZE, 3])
        labels = tf.zeros([MEASURED_BATCH], tf.int32)

        @tf.function
        def step() -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.keras.losses.sparse_categorical_crossentropy(labels, model(images, training=True))
            for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
                variable.assign_sub(1e-4 * gradient)
            return tf.reduce_mean(loss)

        step().numpy()
        count, begin = 0, time.perf_counter()
        while (passed := time.perf_counter() - begin) < MEASURED_SECONDS:
            step().numpy()
            count += 1
    return count * MEASURED_BATCH / passed


def _probe(name: str) -> str:
    import numpy as np
    import tensorflow_federated as tff

    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def mean(values):
        return tff.federated_mean(values)

    with engine.open_engine(name):
        return f"mean {mean([1.0, 2.0, 3.0, 4.0])}"


if __name__ == "__main__":
    sys.exit(main())
