"""Sockets that are files which nobody but this user can open."""

import os
import pathlib
import socket
import tempfile

_LONGEST_PATH = 100  # of a Unix socket, in bytes; the kernel's limit is 107


def private_folder(prefix: str, room: int = 10) -> pathlib.Path:
    """A new folder that is ours alone, with a path short enough for a socket in it whose name has `room` letters."""
    folder = tempfile.mkdtemp(prefix=prefix)
    if len(os.fsencode(folder)) > _LONGEST_PATH - 1 - room:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=prefix, dir="/tmp")
    return pathlib.Path(folder)


def listen(path: pathlib.Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(16)
    except BaseException:
        listener.close()
        raise
    return listener
