"""Sockets that others connect to; what can be wrong with an address is one line."""

import errno
import socket

from tffapps.errors import UserError
from tffapps.wire.address import parse_address


def bind(flag: str, text: str) -> socket.socket:
    """A socket at HOST:PORT, which does not answer yet."""
    host, port = parse_address(flag, text)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        raise UserError(f"{flag} {text}: no host of this name is known; give an address of this machine") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise UserError(f"{flag} {text}: {_why(error)}") from None
    return listener


def begin(flag: str, text: str, listener: socket.socket) -> None:
    """From now on it answers."""
    try:
        listener.listen(64)
    except OSError as error:  # somebody was quicker
        raise UserError(f"{flag} {text}: {_why(error)}") from None


def shown(listener: socket.socket) -> str:
    """Where it is, as HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there; choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "not an address of this machine; give one of its own, or 0.0.0.0 for all of them"
    if error.errno == errno.EACCES:
        return "only the administrator may listen there; choose a port from 1024 on"
    return f"cannot listen there ({error.strerror})"
