"""Forwarded bytes are the same bytes, both ways at once, with TLS and without."""

import socket
import ssl
import threading

import numpy as np
import pytest

from tffapps.site import certs
from tffapps.wire.certificates import Certificates
from tffapps.wire.forward import forward

SIZE = 3 * 2**20 + 17  # more than all buffers together


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation") / "certificates"
    certs.write(folder, ["a"])
    return folder


def secured(folder, caller: socket.socket, answering: socket.socket) -> tuple[socket.socket, socket.socket]:
    """The two ends of a connection as the two ends of a TLS connection."""
    files = Certificates(str(folder / "a.pem"), str(folder / "a.key"), str(folder / "ca.pem"))
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "coordinator.pem", folder / "coordinator.key")
    context.set_alpn_protocols(["h2"])
    ends: list[socket.socket] = []
    greet = threading.Thread(target=lambda: ends.append(context.wrap_socket(caller, server_hostname="a")))
    greet.start()
    server = files.server_context().wrap_socket(answering, server_side=True)
    greet.join()
    return ends[0], server


@pytest.mark.parametrize("kind", ["plain", "TLS"])
def test_bytes_arrive_both_ways(kind, folder):
    caller, outer = socket.socketpair()
    inner, worker = socket.socketpair()
    if kind == "TLS":
        caller, outer = secured(folder, caller, outer)
    rng = np.random.default_rng(0)
    request, answer = rng.bytes(SIZE), rng.bytes(SIZE)
    counts: list[tuple[int, int]] = []
    threads = [
        threading.Thread(target=lambda: counts.append(forward(outer, inner))),
        threading.Thread(target=lambda: worker.sendall(answer)),
    ]
    received = bytearray()

    def listen() -> None:
        while len(received) < SIZE:
            received.extend(worker.recv(2**16))

    threads.append(threading.Thread(target=listen))
    for thread in threads:
        thread.start()
    # One thread for the caller's TLS, which may not read and write at the same time; the worker does both.
    caller.sendall(request)
    got = bytearray()
    while len(got) < SIZE:
        got.extend(caller.recv(2**16))
    threads[2].join(timeout=20)
    worker.close()
    threads[0].join(timeout=20)
    assert bytes(received) == request and bytes(got) == answer
    assert counts == [(SIZE, SIZE)]
    for end in (caller, outer, inner):
        end.close()


def test_a_caller_that_breaks_off_ends_it():
    caller, outer = socket.socketpair()
    inner, worker = socket.socketpair()
    caller.sendall(b"half a mess")
    caller.close()
    assert forward(outer, inner) == (11, 0)
    assert worker.recv(100) == b"half a mess"
    for end in (outer, inner, worker):
        end.close()
