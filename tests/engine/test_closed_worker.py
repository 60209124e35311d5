"""The worker's port exists in a private network only, and everything ends with whoever started it."""

import os
import pathlib
import signal
import socket
import stat

import pytest

from tests.engine.closed import FORBIDDEN, ends, is_running, listening_ports, need_namespaces
from tffapps.engine import closed_worker
from tffapps.engine.closed_worker import ClosedWorker
from tffapps.engine.worker_process import WorkerProcess
from tffapps.errors import UserError


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


@pytest.fixture
def forbidden(monkeypatch):
    monkeypatch.setattr(closed_worker, "_PROGRAM", FORBIDDEN)
    closed_worker._warn.cache_clear()


def test_the_port_is_not_there_outside():
    need_namespaces()
    process = WorkerProcess()
    try:
        assert process.closed and process.port in listening_ports(process.pid)
        assert process.port not in listening_ports()
        with socket.socket() as caller:
            assert caller.connect_ex(("127.0.0.1", process.port)) != 0
        assert os.readlink(f"/proc/{process.pid}/ns/net") != os.readlink("/proc/self/ns/net")
    finally:
        process.stop()


def test_only_we_can_open_the_socket():
    process = WorkerProcess()
    path = pathlib.Path(process.address[len("unix:") :])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    process.stop()
    assert not path.parent.exists()


def test_a_long_temporary_folder(tmp_path, monkeypatch):
    folder = tmp_path / ("a" * 100)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    process = WorkerProcess()
    process.stop()
    assert not os.listdir(folder)


def test_the_worker_ends_with_its_supervisor():
    process = WorkerProcess()
    os.kill(process.supervisor_pid, signal.SIGKILL)
    assert ends(process.pid)
    assert not process.is_alive()
    process.stop()


def test_without_private_networks_it_refuses(forbidden):
    with pytest.raises(UserError, match=r"site a: this kernel allows no private network \(Operation not permitted\)"):
        ClosedWorker(listener(), name="site a")


def test_without_private_networks_it_goes_on_if_allowed(forbidden, capfd):
    door = listener()
    process = ClosedWorker(door, name="site a", allow_open=True)
    try:
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith("site a: warning: TFF's worker listens on every network interface")
        assert not process.closed and process.port in listening_ports()
    finally:
        process.stop()


def test_the_engine_goes_on_with_one_warning(forbidden, capfd):
    for _ in range(2):
        process = WorkerProcess()
        assert not process.closed and is_running(process.pid)
        process.stop()
    (line,) = capfd.readouterr().err.splitlines()
    assert "--engine worker: warning" in line


def test_a_program_that_cannot_be_started(tmp_path):
    with pytest.raises(UserError, match=r"site a: .*worker_binary is missing or not executable"):
        ClosedWorker(listener(), name="site a", binary=tmp_path / "worker_binary")


def test_a_supervisor_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(closed_worker, "_PROGRAM", "raise SystemExit(5)")
    with pytest.raises(UserError, match=r"site a: its supervisor ended at start \(status 5\)"):
        ClosedWorker(listener(), name="site a")
