"""The worker engine: ended on every way out, restarted when it dies, never waited for without a deadline."""

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.engine.closed import ends, is_running
from tffapps.engine import closed_worker, open_engine, worker_process
from tffapps.errors import UserError

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import sys, time
from tffapps.engine import open_engine
with open_engine("worker") as engine:
    process = engine.context.process
    print(process.pid, process.supervisor_pid, process.address[len("unix:"):], flush=True)
    {body}
"""
WAIT = "[time.sleep(0.1) for _ in range(600)]"  # a signal that comes just before a sleep does not interrupt it
WAYS_OUT = {
    "return": ("pass", None),
    "exception": ("raise ValueError('no')", None),
    "Ctrl-C": (WAIT, signal.SIGINT),
    "SIGTERM": (WAIT, signal.SIGTERM),
    "SIGKILL": (WAIT, signal.SIGKILL),
}


@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def total(values):
    return tff.federated_sum(values)


@pytest.mark.parametrize("way", WAYS_OUT)
def test_no_worker_outlives_the_program(way):
    body, number = WAYS_OUT[way]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
    worker, supervisor, address = program.stdout.readline().split()
    if number is not None:
        assert is_running(int(worker)) and pathlib.Path(address).exists()
        program.send_signal(number)
    # Reads to the end of the pipe: a worker that held our standard output would keep this waiting.
    program.communicate(timeout=30)
    assert ends(int(worker)) and ends(int(supervisor))
    assert not pathlib.Path(address).parent.exists()


def test_a_worker_that_dies_is_replaced():
    with open_engine("worker") as engine:
        assert total([1.0, 2.0]) == 3.0
        first = engine.context.process.pid
        os.kill(first, signal.SIGKILL)
        assert total([1.0, 2.0, 4.0]) == 7.0
        assert engine.context.restarts == 1
        assert engine.context.process.pid != first


def test_a_worker_that_does_not_start_is_reported(monkeypatch, tmp_path):
    broken = tmp_path / "worker_binary"
    broken.write_text("#!/bin/sh\necho cannot run here\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(worker_process, "binary_path", lambda: broken)
    with pytest.raises(UserError, match=r"status 7.*cannot run here"), open_engine("worker"):
        pass


def test_a_worker_that_does_not_answer_is_given_up(monkeypatch, tmp_path):
    silent = tmp_path / "worker_binary"
    silent.write_text("#!/bin/sh\nexec sleep 60\n")
    silent.chmod(0o755)
    monkeypatch.setattr(worker_process, "binary_path", lambda: silent)
    with pytest.raises(UserError, match="no answer within 1 s"):
        worker_process.WorkerProcess(start_timeout=1)


def test_an_unknown_engine_is_refused():
    with (
        pytest.raises(UserError, match=r"--engine gpu: unknown; choose one of in-process, worker"),
        open_engine("gpu"),
    ):
        pass


_TOLD_WHILE_IT_REMOVES = (
    "import os, shutil, sys; sys.path.insert(0, sys.argv[1]); from tffapps.engine import supervisor\n"
    "remove = shutil.rmtree\n"
    "def told(*a, **k): os.kill(os.getpid(), 15); remove(*a, **k)\n"
    "shutil.rmtree = told\n"
    "supervisor.main(sys.argv[2])"
)


def test_a_supervisor_that_is_told_to_end_while_it_ends_removes_its_folder(monkeypatch):
    """As when a whole service is stopped: the worker ends and the supervisor is told to, at the same moment."""
    monkeypatch.setattr(closed_worker, "_PROGRAM", _TOLD_WHILE_IT_REMOVES)
    process = worker_process.WorkerProcess()
    folder = pathlib.Path(process.address[len("unix:") :]).parent
    assert folder.exists()
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    assert not folder.exists()
    process.stop()
