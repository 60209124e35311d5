"""Landlock: from here on this process and its children open the files they were given, and no others.

The kernel (5.13 or later) holds it against everyone, the administrator included, and there is no way back. Files that
are open already stay open. The numbers are those of the kernel's interface on x86-64.
"""

import ctypes
import os
import stat
from collections.abc import Iterable

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION, _PATH_BENEATH, _NO_NEW_PRIVS = 1, 1, 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_ABI = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _IOCTL}  # what each version of the interface added
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _IOCTL  # of a file that is no folder
_BIND, _CONNECT = 1, 2  # TCP, from the fourth version on
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2  # to processes outside, from the sixth version on

READ = READ_FILE | READ_DIR
_DEVICES = 1 << 6 | 1 << 11
_MAKE_AND_REMOVE = ((1 << 13) - (1 << 4)) & ~_DEVICES
CHANGE = READ | WRITE_FILE | _MAKE_AND_REMOVE | _REFER | _TRUNCATE


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Of the kernel's interface; 0 where there is none, or it is switched off."""
    return max(0, _libc().syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION))


def restrict(rules: Iterable[tuple[str, int]], *, listens: bool) -> None:
    """Only these paths, and what is below them, may be used, each for what stands beside it; OSError if it cannot be.

    Paths that are not there are passed over. No TCP connection can be made; unless it `listens`, no port be opened.
    """
    abi = version()
    handled = sum(bits for since, bits in _ALL_OF_ABI.items() if since <= abi)
    net = (_CONNECT if listens else _CONNECT | _BIND) if abi >= 4 else 0
    ruleset = _Ruleset(handled, net, _ABSTRACT_SOCKETS | _SIGNALS if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8  # older kernels know fewer fields
    number = _checked(_libc().syscall(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), 0))
    try:
        for path, allowed in rules:
            _add(number, path, allowed & handled)
        _checked(_libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(_libc().syscall(_RESTRICT, number, 0))
    finally:
        os.close(number)


def _add(number: int, path: str, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a link to nowhere
        return
    try:
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rule = _Beneath(allowed if is_folder else allowed & _OF_FILES, place)
        _checked(_libc().syscall(_ADD_RULE, number, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
