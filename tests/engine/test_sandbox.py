"""A program in a sandbox, tried from inside: what it was given works, and nothing else does."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time

import pytest

from tests.engine.closed import ends
from tffapps.engine import sandbox
from tffapps.engine.sandbox import Sandbox

# Tries everything and says what came of each.
_ATTACKER = """
import ctypes, json, os, socket, subprocess, sys, threading
here, secret, own, code, *wanted = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def called(result):
    if result < 0: raise OSError(ctypes.get_errno(), "")
def thread():
    one = threading.Thread(target=len, args=("",)); one.start(); one.join()
tries = {
    "its own files": lambda: open(here + "/link").read(),
    "a folder of its own": lambda: open(own + "/new", "w").write("new"),
    "threads": thread,
    "a secret": lambda: open(secret).read(),
    "the machine's name": lambda: open("/etc/hostname").read(),
    "who is on it": lambda: os.listdir("/home"),
    "its parent's environment": lambda: open("/proc/1/environ").read(),
    "writing beside what it reads": lambda: open(here + "/new", "w"),
    "writing code": lambda: open(code + "/sitecustomize.py", "w"),
    "the rights of what it reads": lambda: os.chmod(here + "/link", 0o666),
    "the rights of a secret": lambda: os.chmod(secret, 0o666),
    "whose a secret is": lambda: os.chown(secret, os.getuid(), os.getgid()),
    "another program": lambda: subprocess.run(["/bin/true"], check=True),
    "the network": lambda: socket.socket(),
    "a Unix socket": lambda: socket.socket(socket.AF_UNIX),
    "looking into others": lambda: called(libc.ptrace(16, 1, 0, 0)),
    "mounting": lambda: called(libc.mount(b"none", b"/mnt", b"tmpfs", 0, 0)),
    "becoming somebody else": lambda: os.setuid(65534) if os.getuid() == 0 else os.setuid(0),
    "a namespace": lambda: called(libc.unshare(0x10000000)),
    "a shared library from nowhere": lambda: called(libc.memfd_create(b"x", 0)),
}
found = {"variables": sorted(os.environ), "process": os.getpid()}
for name in wanted or tries:
    try: tries[name](); found[name] = "done"
    except OSError as error: found[name] = error.errno
print(json.dumps(found))
"""
_WORKS = ("its own files", "a folder of its own", "threads")
_WORKS_OUTSIDE = (  # so it is the sandbox that refuses them; of the others some are not to be tried
    *_WORKS, "a secret", "the machine's name", "who is on it", "writing beside what it reads", "writing code",
    "the rights of a secret", "another program", "the network", "a Unix socket", "a shared library from nowhere",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def needed():
    if sandbox.lacks():
        pytest.skip(f"no {sandbox.lacks()} here")


def python_paths() -> list[str]:
    return [os.path.join(prefix, part) for prefix in {sys.prefix, sys.base_prefix} for part in ("lib", "pyvenv.cfg")]


def test_what_a_program_can_do_from_inside(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "word")
    secret, here, own, code = (tmp_path / name for name in ("key.pem", "here", "own", "code"))
    image = tmp_path / "elsewhere.png"
    image.write_text("an image")
    secret.write_text("a key")
    for folder in (here, own, code):
        folder.mkdir()
    (here / "link").symlink_to(image)
    allowed = Sandbox(read=[*python_paths(), str(code)], links=str(here), change=[str(own)], environment={"GIVEN": "1"})
    program = [sys.executable, "-I", "-c", _ATTACKER, *map(str, (here, secret, own, code))]

    def tried(command: list[str]) -> dict:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    found = tried(sandbox.command(allowed, program, os.getpid()))
    variables = found.pop("variables")
    assert "GIVEN" in variables and "SECRET" not in variables
    if not sandbox.namespaces_refused():
        assert found["process"] == 1  # the only one it knows of
    del found["process"]
    assert {name for name, result in found.items() if result == "done"} == set(_WORKS)
    assert (own / "new").read_text() == "new" and not (here / "new").exists() and not list(code.iterdir())
    outside = tried([*program, *_WORKS_OUTSIDE])
    assert {name for name in _WORKS_OUTSIDE if outside[name] != "done"} == set() and "SECRET" in outside["variables"]


# Listens, and tries to be a caller too.
_LISTENER = """
import json, socket
server = socket.create_server(("127.0.0.1", 0))
place = server.getsockname()
tries = {
    "connects": lambda: socket.create_connection(place),
    "sends without": lambda: socket.socket().sendto(b"x", 0x20000000, place),  # MSG_FASTOPEN
    "sends a message without": lambda: socket.socket().sendmsg([b"x"], [], 0x20000000, place),
    "another protocol": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262),  # MPTCP
    "a kind without connections": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
}
found = {}
for name, attempt in tries.items():
    try: attempt(); found[name] = "done"
    except OSError as error: found[name] = error.errno
print(json.dumps(found))
"""


def test_who_listens_calls_nobody():
    def found(sandbox_: Sandbox | None) -> dict[str, str | int]:
        command = sandbox.command(sandbox_, [sys.executable, "-I", "-c", _LISTENER], os.getpid())
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    inside, outside = found(Sandbox(read=python_paths(), listens=True)), found(None)
    assert set(inside.values()) == {errno.EPERM}
    assert set(outside.values()) == {"done"}


def test_it_ends_as_its_program_ends_and_with_who_started_it():
    def started(code: str) -> subprocess.Popen:
        command = sandbox.command(Sandbox(read=python_paths()), [sys.executable, "-I", "-c", code], os.getpid())
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    assert started("raise SystemExit(7)").wait(30) == 7
    assert started("import os; os.abort()").wait(30) < 0  # by which signal depends on whether it is the first process
    with started("import time; print('begun', flush=True); time.sleep(60)") as launcher:
        launcher.stdout.readline()
        children = f"/proc/{launcher.pid}/task/{launcher.pid}/children"
        with open(children) as file:
            (program,) = map(int, file.read().split())
        launcher.kill()
        assert ends(program)
    late = sandbox.command(Sandbox(), [sys.executable, "-c", ""], os.getpid() + 1)  # of another parent
    assert subprocess.run(late, check=False, timeout=30).returncode == 1


def test_without_a_sandbox_it_is_the_program_itself():
    begin = time.monotonic()
    done = subprocess.run(sandbox.command(None, ["/bin/echo", "here"], os.getpid()), capture_output=True, check=True)
    assert done.stdout == b"here\n" and time.monotonic() - begin < 10


def test_a_sandbox_that_cannot_be_made_starts_nothing(tmp_path):
    program = tmp_path / "started"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from tffapps.engine import landlock, sandbox\n"
        "def fail(*a, **k): raise OSError(95, 'Landlock: not supported')\n"
        "landlock.restrict = fail\nsandbox.main(sys.argv[2])"
    )
    command = sandbox.command(Sandbox(), ["/usr/bin/touch", str(program)], os.getpid())
    command[command.index("-c") + 1] = code
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 97 and done.stderr.startswith("no sandbox: ") and not program.exists()
