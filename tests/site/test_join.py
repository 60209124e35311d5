"""Sites that dial out: the numbers of one machine, strangers at the coordinator's port, sites that freeze."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from tests.conftest import largest_difference
from tests.engine.closed import need_namespaces
from tests.site.conftest import files
from tests.site.federation import Member
from tests.site.rounds import played
from tests.site.test_serve import flags, own_home
from tests.test_commands import command
from tffapps import engine as engines
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.round import build_round
from tffapps.site.__main__ import main
from tffapps.wire import heartbeat, meeting_point
from tffapps.wire.certificates import Certificates
from tffapps.wire.channel import Unreachable
from tffapps.wire.dial_out import AT_ONCE, DialOut
from tffapps.wire.meeting_point import MeetingPoint


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Joining(Member):
    """A site that calls the coordinator at `port` instead of listening."""

    def _entrance(self) -> DialOut:
        return DialOut("join", f"127.0.0.1:{self.port}", logging.getLogger("tffapps.site.test"))


@pytest.fixture
def joining(noise, folder):
    need_namespaces()
    port = free_port()
    with contextlib.ExitStack() as stack:
        for name in ("a", "b"):
            stack.callback(Joining(noise, folder, name, port).close)
        yield port


@pytest.fixture(scope="module")
def round_(tiny_task):
    return build_round(tiny_task, FedAvg(learning_rate=0.1))


def test_rounds_over_the_connections_that_sites_made(joining, folder, noise, round_, tiny_weights):
    with open_engine("in-process") as engine:
        here = played(engine, round_, tiny_weights, noise)
    for _ in range(2):  # the second command finds the sites calling again
        sites = f"a@127.0.0.1:{joining},b@127.0.0.1:{joining}"
        with strangers(joining), open_engine(sites, files(folder, "coordinator")) as engine:
            there = played(engine, round_, tiny_weights, noise)
            assert list(engine.sites) == ["a", "b"]
        assert there.took_part == 2
        assert largest_difference(here.state.weights, there.state.weights) < 1e-5


@contextlib.contextmanager
def strangers(port: int):
    """Some who come before the sites do, and stay, saying nothing or something."""
    ended = threading.Event()

    def bother() -> None:
        with contextlib.ExitStack() as stack:
            while not ended.wait(0.05):
                with contextlib.suppress(OSError):
                    plain = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                    plain.sendall(b"a\n" * 5)

    thread = threading.Thread(target=bother)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def calling(port: int, shown: Certificates) -> socket.socket:
    """A site of these certificates that has called."""
    return shown.server_context().wrap_socket(socket.create_connection(("127.0.0.1", port)), server_side=True)


@pytest.mark.parametrize("stored", ["b", "old", "coordinator"])
def test_only_the_site_of_that_name_is_taken(stored, folder, monkeypatch):
    monkeypatch.setattr(meeting_point, "FIRST_SECONDS", 0.5)
    point = MeetingPoint("127.0.0.1:0", files(folder, "coordinator"), ["a"])
    with contextlib.closing(point):
        port = int(point.address.rpartition(":")[2])
        with contextlib.suppress(OSError):
            calling(port, files(folder, stored)).close()
        with pytest.raises(Unreachable, match=r"a@127.0.0.1:.*: the site did not call within 0.5 s.*`site join`"):
            point.take("a")
        with contextlib.closing(calling(port, files(folder, "a"))):
            point.take("a").close()


def test_one_that_hung_up_is_not_handed_out(folder, monkeypatch):
    monkeypatch.setattr(meeting_point, "FIRST_SECONDS", 0.5)
    point = MeetingPoint("127.0.0.1:0", files(folder, "coordinator"), ["a"])
    with contextlib.closing(point):
        port = int(point.address.rpartition(":")[2])
        for _ in range(3):
            calling(port, files(folder, "a")).close()
        with pytest.raises(Unreachable):
            point.take("a")


def test_a_site_dials_as_often_as_it_needs_to(caplog):
    caplog.set_level("INFO")
    port = free_port()
    dialled = DialOut("join", f"127.0.0.1:{port}", logging.getLogger("site"))
    made: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                made.append(dialled.accept()[0])

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        time.sleep(0.3)
        assert made == [] and "nobody at" in caplog.text
        with socket.create_server(("127.0.0.1", port)):
            wait_until(lambda: len(made) == AT_ONCE)
            time.sleep(0.5)
            assert len(made) == AT_ONCE  # and no more
            dialled.ended()
            wait_until(lambda: len(made) == AT_ONCE + 1)
    finally:
        dialled.close()
        thread.join(timeout=10)
        for connection in made:
            connection.close()
    assert not thread.is_alive() and caplog.text.count("nobody at") == 1


def wait_until(holds, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert holds()


def test_a_site_that_freezes_is_given_up(images, folder, monkeypatch):
    """By a command of its own, stopped as a machine that hangs is: its kernel still answers."""
    need_namespaces()
    port = free_port()
    arguments = ["join", f"127.0.0.1:{port}", "--data", str(images), "--name", "a", *flags(folder)]
    program = subprocess.Popen(
        command("tffapps.site", *arguments),
        env=own_home(images),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert f"dialling 127.0.0.1:{port}, worker closed to the network" in program.stdout.readline()
        with open_engine(f"a@127.0.0.1:{port}", files(folder, "coordinator")) as engine:
            (link,) = engine.context.links.values()
            monkeypatch.setattr(heartbeat, "SILENCE_SECONDS", 2.0)
            time.sleep(2.5)
            assert link._heartbeat.beats()  # it answers what it is asked, beside which nothing is said
            os.kill(program.pid, signal.SIGSTOP)
            try:
                wait_until(lambda: not link._heartbeat.beats(), 30)
            finally:
                os.kill(program.pid, signal.SIGCONT)
    finally:
        program.terminate()
        program.communicate(timeout=20)


def test_mistakes(images, folder, capsys):
    assert main(["join", "nowhere", "--data", str(images), "--name", "a", *flags(folder)]) == 2
    assert "join nowhere: expected HOST:PORT" in capsys.readouterr().err
    with pytest.raises(UserError, match="whom to wait for there"):
        engines.check_name("@localhost:9000", files(folder, "coordinator"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match="another program listens there"):
            MeetingPoint(address, files(folder, "coordinator"), ["a"])
