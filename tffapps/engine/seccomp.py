"""System calls that TFF's worker and a site's jobs have no use for, refused by a filter of the kernel's (seccomp).

What is refused fails with "operation not permitted"; there is no way back. The numbers are those of x86-64.
"""

import ctypes
import os
import struct
from collections.abc import Iterable

_SET_SECCOMP, _FILTER, _NO_NEW_PRIVS = 22, 2, 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD, _FOURTH = 0, 4, 16, 24, 32, 40  # where in the kernel's description
_X86_64, _X32 = 0xC000003E, 0x40000000
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_INET, _INET6 = 2, 10
_STREAM, _TYPE, _TCP = 1, 0xF, 6  # of sockets; the other bits of a type are flags
_FAST_OPEN = 0x20000000  # of what is sent: connects as `connect` does, past Landlock too
_SENDING = {44: _FOURTH, 46: _THIRD, 307: _FOURTH}  # sendto, sendmsg, sendmmsg: where their flags are
_THREAD, _NAMESPACES = 0x00010000, 0x7E020000  # flags of clone
_CLONE, _CLONE3, _SOCKET = 56, 435, 41

# Whom it can look into, and what it can change of the machine.
_NOBODY_NEEDS = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_open": 434,
    "pidfd_getfd": 438, "pidfd_send_signal": 424, "process_madvise": 440,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "unshare": 272, "setns": 308, "personality": 135, "seccomp": 317,
    "init_module": 175, "delete_module": 176, "finit_module": 313, "kexec_load": 246, "kexec_file_load": 320,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427,
    "keyctl": 250, "add_key": 248, "request_key": 249, "open_by_handle_at": 304, "fanotify_init": 300,
    "swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163, "quotactl": 179, "settimeofday": 164, "adjtimex": 159,
    "clock_settime": 227, "clock_adjtime": 305, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "syslog": 103, "mknod": 133, "mknodat": 259, "memfd_create": 319, "memfd_secret": 447, "execveat": 322,
    "connect": 42,
    # Landlock does not ask who changes a file's rights, also of one that cannot be opened.
    "chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "chown": 92, "fchown": 93, "lchown": 94,
    "fchownat": 260, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "setxattrat": 463, "removexattr": 197,
    "lremovexattr": 198, "fremovexattr": 199, "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
_NO_PROCESSES = {"fork": 57, "vfork": 58}


def available() -> bool:
    return os.path.exists("/proc/sys/kernel/seccomp") or _libc().prctl(21, 0, 0, 0, 0) == 0


def restrict(*, listens: bool, processes: bool) -> None:
    """Installs the filter for this process and its children; OSError if it cannot be.

    Who `listens` may have TCP sockets, others none; without `processes` it may have threads, and no children.
    """
    content = b"".join(_program(listens, processes))
    buffer = ctypes.create_string_buffer(content, len(content))
    program = struct.pack("HxxxxxxP", len(content) // 8, ctypes.addressof(buffer))
    libc = _libc()
    for call in ((_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0)):
        if libc.prctl(*call) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"seccomp: {os.strerror(code)}")


def _program(listens: bool, processes: bool) -> Iterable[bytes]:
    """One instruction of the kernel's filter machine after the other; each jumps over so many of the next."""
    refuse = _step(_RETURN, _REFUSE | _EPERM)
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, _X86_64, yes=1)
    yield _step(_RETURN, _KILL)
    yield _step(_LOAD, _NUMBER)
    yield _step(_AT_LEAST, _X32, no=1)  # the same calls by other numbers
    yield refuse
    for number in (*_NOBODY_NEEDS.values(), *(() if processes else _NO_PROCESSES.values())):
        yield _step(_EQUAL, number, no=1)
        yield refuse
    yield _step(_EQUAL, _CLONE3, no=1)  # its flags cannot be seen from here; the C library then uses clone
    yield _step(_RETURN, _REFUSE | _ENOSYS)
    clone = [_step(_LOAD, _FIRST), _step(_ANY_BIT, _NAMESPACES, no=1), refuse]
    if not processes:
        clone += [_step(_ANY_BIT, _THREAD, yes=1), refuse]
    clone.append(_step(_RETURN, _ALLOW))
    yield _step(_EQUAL, _CLONE, no=len(clone))
    yield from clone
    socket = [refuse]
    if listens:
        socket = [
            _step(_LOAD, _FIRST), _step(_EQUAL, _INET, yes=2), _step(_EQUAL, _INET6, yes=1), refuse,
            _step(_LOAD, _SECOND), _step(_AND, _TYPE), _step(_EQUAL, _STREAM, yes=1), refuse,
            _step(_LOAD, _THIRD), _step(_EQUAL, 0, yes=2), _step(_EQUAL, _TCP, yes=1), refuse,
        ]  # fmt: skip
        socket.append(_step(_RETURN, _ALLOW))
    for number, flags in _SENDING.items():
        yield _step(_EQUAL, number, no=4)
        yield from (_step(_LOAD, flags), _step(_ANY_BIT, _FAST_OPEN, no=1), refuse, _step(_RETURN, _ALLOW))
    yield _step(_EQUAL, _SOCKET, no=len(socket))
    yield from socket
    yield _step(_RETURN, _ALLOW)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
