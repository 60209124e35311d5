"""A private network: a namespace of the kernel's in which only the loopback interface of its own exists.

Sockets that were bound before stay where they were, which is how a supervisor listens outside and calls inside.
"""

import ctypes
import fcntl
import os
import pathlib
import socket
import struct

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CLONE_NEWIPC, _CLONE_NEWPID = 0x08000000, 0x20000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_REQUEST = "16sH22x"  # struct ifreq: the interface's name, its flags


def enter() -> None:
    """Moves this process, which must have one thread, into a new private network, or raises OSError."""
    _leave_behind(_CLONE_NEWNET)
    _bring_up(b"lo")


def leave_processes(*, network: bool = False) -> None:
    """From here on children do not see other processes, nor their shared memory; with `network`, no network either.

    The first child is the first process of its kind: all others end with it. OSError where the kernel forbids it.
    """
    _leave_behind(_CLONE_NEWPID | _CLONE_NEWIPC | (_CLONE_NEWNET if network else 0))


def _leave_behind(flags: int) -> None:
    """An ordinary user needs a user namespace as well: the kernel gives such rights only inside one.

    There the user stays who he is.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare(flags)
    except PermissionError:
        _unshare(_CLONE_NEWUSER | flags)
        _write("setgroups", "deny")
        _write("uid_map", f"{user} {user} 1")
        _write("gid_map", f"{group} {group} 1")


def _unshare(flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _write(name: str, text: str) -> None:
    pathlib.Path("/proc/self", name).write_text(text)


def _bring_up(interface: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, struct.pack(_REQUEST, interface, 0))
        flags = struct.unpack(_REQUEST, answer)[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_REQUEST, interface, flags | _IFF_UP))
