"""A program in a sandbox: the files it was given, an environment without secrets, no way to anything else.

    site ──► launcher, `python -c …`: new namespaces, then waits ──► the program: limits, Landlock, seccomp, exec

What it may read and change is said in a `Sandbox`; everything else of the machine, the site's key and other people's
files among it, cannot be opened. It sees no other process, has no shared memory with any, makes no connection, gains no
rights, and, if it is TFF's worker, starts no program and writes no file. It needs nothing but Python's own library.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from tffapps.engine import landlock, namespace, seccomp

_PACKAGES = str(pathlib.Path(__file__).resolve().parents[2])
_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from tffapps.engine import sandbox; sandbox.main(sys.argv[2])"
_PDEATHSIG, _CAPBSET_DROP = 1, 24  # of prctl
_CAPSET, _CAPABILITY_VERSION = 126, 0x20080522
_DAC_READ_SEARCH = 2  # the one right that an administrator keeps: to read others' files, if Landlock lets him
_FAILED = 97  # exit status of a launcher that could not make the sandbox

# What programs need to be started, and to know what processor they run on.
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
_PROCESSOR = ("/proc/cpuinfo", "/proc/meminfo", "/proc/self/cmdline", "/sys/devices/system")
_VARIABLES = (
    "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "TF_CPP_MIN_LOG_LEVEL",
    "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_ENABLE_ONEDNN_OPTS", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Sandbox:
    """What a program may do."""

    read: Sequence[str] = ()  # files, and folders with all that is below them
    links: str = ""  # a folder, and what the links in it lead to
    listed: Sequence[str] = ()  # folders of which the files' names may be seen
    change: Sequence[str] = ()  # folders
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)  # besides what a program needs to run
    listens: bool = False  # is a server, in the network that it is in: it may have TCP sockets
    children: bool = False  # may have processes of its own


def lacks() -> list[str]:
    """What this kernel has not, without which there is no sandbox."""
    return [
        *([] if landlock.version() else ["Landlock (Linux 5.13 or later, with lsm=…,landlock)"]),
        *([] if seccomp.available() else ["seccomp filters"]),
    ]


def namespaces_refused() -> str:
    """Why this kernel allows no private network and no private processes; empty if it does."""
    code = "from tffapps.engine import namespace; namespace.leave_processes(network=True)"
    asked = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, sys.argv[1]); {code}", _PACKAGES]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Variables that say how to run, and nothing about who runs it."""
    return {**{name: os.environ[name] for name in _VARIABLES if name in os.environ}, **more}


def command(sandbox: Sandbox | None, program: Sequence[str], parent: int) -> list[str]:
    """What to start in place of `program`, which ends with `parent`, the process that starts it."""
    orders = {"parent": parent, "program": list(program), "sandbox": sandbox and dataclasses.asdict(sandbox)}
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, _PACKAGES, json.dumps(orders)]


def main(text: str) -> None:
    """In the launcher's process: becomes the program, or waits for it and ends as it ended."""
    orders = json.loads(text)
    program: list[str] = orders["program"]
    _die_with_parent()
    if os.getppid() != orders["parent"]:
        os._exit(1)
    if orders["sandbox"] is None:
        os.execv(program[0], program)
    sandbox = Sandbox(**orders["sandbox"])
    with contextlib.suppress(OSError):  # where it is not allowed, Landlock keeps it from others' processes
        namespace.leave_processes(network=not sandbox.listens)
    here, there = os.pipe()  # held open by this process: it is closed when this one ends
    child = os.fork()
    if child:
        os.close(here)
        _wait_for(child)
    os.close(there)
    try:
        _die_with_parent()
        if select.select([here], [], [], 0)[0]:  # too late: the launcher is gone already
            os._exit(1)
        os.close(here)
        _restrict(sandbox, program[0])
        os.execve(program[0], program, environment(sandbox.environment))
    except OSError as error:
        print(f"no sandbox: {error}", file=sys.stderr, flush=True)
    os._exit(_FAILED)


def _wait_for(child: int) -> None:
    for number in (0, 1, 2):  # whoever reads what the program says must see its end
        with contextlib.suppress(OSError):
            os.close(number)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)


def _restrict(sandbox: Sandbox, program: str) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: memory, resource.RLIMIT_MEMLOCK: 0}
    if not sandbox.change:
        limits[resource.RLIMIT_FSIZE] = 0
    for kind, most in limits.items():
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    rules = list(_rules(sandbox, program))
    _drop_rights()
    landlock.restrict(rules, listens=sandbox.listens)
    seccomp.restrict(listens=sandbox.listens, processes=sandbox.children)


def _rules(sandbox: Sandbox, program: str) -> Iterator[tuple[str, int]]:
    start = landlock.READ | landlock.EXECUTE
    yield os.path.realpath(program), start
    for path in _SYSTEM:
        yield path, start  # libraries; the loader is a program too
    for path in (*_DEVICES, *_PROCESSOR, *sandbox.read):
        yield path, landlock.READ
    yield "/dev/null", landlock.READ | landlock.WRITE_FILE
    for path in sandbox.change:
        yield path, landlock.CHANGE
    for path in sandbox.listed:
        yield path, landlock.READ_DIR
    if sandbox.links:
        yield sandbox.links, landlock.READ
        for folder, folders, files in os.walk(sandbox.links):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    yield os.path.realpath(path), landlock.READ


def _drop_rights() -> None:
    """Of an administrator's, or of whoever is one in his own namespace: all but one, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(64):
        if number != _DAC_READ_SEARCH:
            libc.prctl(_CAPBSET_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    kept = 1 << _DAC_READ_SEARCH if os.geteuid() == 0 else 0
    rights = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    if libc.syscall(_CAPSET, ctypes.byref(header), ctypes.byref(rights)) != 0 and os.geteuid() == 0:
        code = ctypes.get_errno()
        raise OSError(code, f"rights cannot be given up: {os.strerror(code)}")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PDEATHSIG, int(signal.SIGKILL))
