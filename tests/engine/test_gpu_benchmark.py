"""What the owner of a GPU runs: rehearsed on two parts of the processor, and refused where there is no GPU."""

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from tffapps.engine import devices

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"
SMALL = ["--network=tiny", "--size=8", "--clients=5", "--images=16", "--batch=8", "--rounds=1"]


def run(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(devices.cores() < 2, reason="needs two cores")
@pytest.mark.slow
def test_two_parts_of_the_processor_give_the_numbers_of_one():
    done = run(*SMALL, "--logical-cpus=2", "--precisions=float32", "--tolerance=1e-5")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[-1] == "verdict: as it should be"
    (all_devices,) = (line for line in lines if line.startswith("all devices"))
    assert "CPU:0: " in all_devices and "CPU:1: " in all_devices


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    done = run()
    assert done.returncode == 2 and done.stdout.startswith("no GPU that TensorFlow sees") and len(done.stdout) < 150
