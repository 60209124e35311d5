"""`site serve` as a user types it: one site's files and no others, one line for each mistake, nothing left behind."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import grpc
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.engine.closed import ends, need_namespaces
from tests.site.conftest import files
from tests.test_commands import command, environment
from tffapps import doctor
from tffapps.engine import lowering, sandbox
from tffapps.engine.worker import remote_context
from tffapps.site.__main__ import main
from tffapps.wire.channel import channel
from tffapps.wire.protocol import DESCRIPTION


def flags(folder, name: str = "a") -> list[str]:
    return [f"--{flag}={file}" for flag, file in zip(("cert", "key", "ca"), files(folder, name).paths())]


def own_home(images: pathlib.Path) -> dict[str, str]:
    """Variables of a site's program: of several test processes each has a site a, and one log has one writer."""
    return {**environment(), "TFFAPPS_HOME": str(images.parent / "home")}


def children(pid: int) -> list[int]:
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Served:
    """A running `site serve`, its address, and everything that must be gone with it."""

    def __init__(self, images, folder) -> None:
        arguments = ["serve", "--data", str(images), "--name", "a", "--listen", "127.0.0.1:0", *flags(folder)]
        self.program = subprocess.Popen(
            command("tffapps.site", *arguments), env=own_home(images), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.line = self.program.stdout.readline()
        assert self.line, self.program.communicate(timeout=20)[1]
        self.address = self.line.partition("listening on ")[2].split(",")[0]
        (self.supervisor,) = children(self.program.pid)
        (self.worker,) = children(self.supervisor)
        self.folder = pathlib.Path(os.readlink(f"/proc/{self.worker}/cwd"))

    def end(self, number: int) -> tuple[int, str]:
        self.program.send_signal(number)
        _, errors = self.program.communicate(timeout=20)  # to the end of the pipe: nobody holds on to it
        return self.program.returncode, errors

    def is_gone(self) -> bool:
        return ends(self.supervisor, 15) and ends(self.worker, 15) and not self.folder.exists()


@tff.tensorflow.computation
def published():
    return tf.io.read_file(DESCRIPTION)


@tff.tensorflow.computation
def first_malignant():
    return tf.io.read_file("train/1/000000")


@tff.tensorflow.computation
def of_another_client():
    return tf.io.matching_files("b/*")


def test_what_it_publishes_and_no_file(images, folder):
    need_namespaces()
    served = Served(images, folder)
    try:
        assert served.line.startswith("site a: 6 images, listening on 127.0.0.1:")
        assert served.line.endswith("worker closed to the network\n")
        with (
            contextlib.closing(channel(served.address, files(folder, "coordinator"))) as way,
            tff.framework.get_context_stack().install(remote_context(way, lowering.to_native)),
        ):
            assert json.loads(published())["images"]["train"] == {"benign": 3, "malignant": 2}
            for reads, operation in ((first_malignant, "ReadFile"), (of_another_client, "MatchingFiles")):
                with pytest.raises(grpc.RpcError, match=f"refused by the site: .* the operation {operation}"):
                    reads()
    finally:
        status, errors = served.end(signal.SIGINT)
    assert status == 130 and errors.endswith("tffapps.site: stopped by Ctrl-C\n")
    assert "site a: coordinator (127.0.0.1:" in errors and "Doe" not in errors
    assert served.is_gone() and images.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(number, images, folder):
    need_namespaces()
    served = Served(images, folder)
    status, errors = served.end(number)
    assert status == (143 if number == signal.SIGTERM else -number)
    assert "Traceback" not in errors and served.is_gone()


def test_a_supervisor_that_is_killed_is_reported(images, folder):
    need_namespaces()
    served = Served(images, folder)
    os.kill(served.supervisor, signal.SIGKILL)
    _, errors = served.program.communicate(timeout=20)
    assert served.program.returncode == 3
    assert errors.splitlines()[-1].startswith("tffapps.site: stopped: the supervisor of the worker ended")
    assert served.is_gone()


MISTAKES = {
    "no such data": ({"data": "/nowhere"}, "a", "--data /nowhere: no such file or folder"),
    "another name": ({"name": "localhost"}, "a", "a.pem is for a; give this name"),
    "no fingerprint": ({"coordinator": "12"}, "a", "--coordinator 12: not a fingerprint"),
    "an expired certificate": ({}, "old", "old.pem: expired on 2020-01-31"),
    "another's certificate": ({}, "b", "--name a: --cert"),
    "no certificate": ({"cert": "nothing.pem"}, "a", "--cert nothing.pem: no such file"),
    "no port": ({"listen": "localhost"}, "a", "--listen localhost: expected HOST:PORT"),
    "another machine's address": ({"listen": "192.0.2.1:9000"}, "a", "--listen 192.0.2.1:9000: not an address of this"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, images, folder, capsys):
    changed, whose, message = MISTAKES[mistake]
    given = {"data": str(images), "name": "a", "listen": "127.0.0.1:0", **changed}
    assert main(["serve", *flags(folder, whose), *(f"--{flag}={value}" for flag, value in given.items())]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_without_a_sandbox_it_refuses_unless_it_is_told_to_go_on(folder, capsys, monkeypatch):
    monkeypatch.setattr(sandbox, "lacks", lambda: ["seccomp filters"])
    given = ["serve", "--data=/nowhere", "--name=a", "--listen=127.0.0.1:0", *flags(folder)]
    assert main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "this kernel has no seccomp filters, so a coordinator could read" in line and "--without-sandbox" in line
    assert "`site serve` has no sandbox here" in doctor._sandbox()[0]
    assert main([*given, "--without-sandbox"]) == 2
    assert "/nowhere: no such file or folder" in capsys.readouterr().err  # the next thing that is wrong


def test_a_port_in_use(images, folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["serve", "--data", str(images), "--name", "a", "--listen", address, *flags(folder)]) == 2
    assert f"--listen {address}: another program listens there; choose another port" in capsys.readouterr().err


def test_tensorflow_is_not_needed_to_serve():
    code = "import sys, tffapps.site.serve; print([name for name in sys.modules if name.startswith('tensorflow')])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
