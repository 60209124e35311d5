"""The way from the coordinator to a site: right numbers with a certificate, nothing at all without a good one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import ssl
import threading
import time

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.engine.closed import listening_ports
from tests.site.conftest import files
from tffapps.engine import lowering
from tffapps.engine.worker import remote_context
from tffapps.errors import UserError
from tffapps.wire.address import parse_address
from tffapps.wire.certificates import Certificates
from tffapps.wire.channel import Unreachable, channel, look


@tff.federated_computation(
    tff.FederatedType(tff.TensorType(np.float32, [3]), tff.CLIENTS), tff.FederatedType(np.float32, tff.CLIENTS)
)
def mean(values, counts):
    return tff.federated_mean(values, counts)


def mean_at(site, folder) -> np.ndarray:
    with contextlib.closing(channel(site.address, files(folder, "coordinator"))) as way:
        context = remote_context(way, lowering.to_native)
        with tff.framework.get_context_stack().install(context):
            values = [np.array([1, 2, 3], np.float32), np.array([5, 6, 7], np.float32)]
            return mean(values, [1.0, 3.0])


def test_a_mean_through_tls(site, folder):
    np.testing.assert_allclose(mean_at(site, folder), [4, 5, 6])  # (1 · 1 + 3 · 5) / 4
    assert site.logged("coordinator (127.0.0.1:")
    assert site.logged(" connected\n") and site.logged(" left after ")


def test_the_workers_port_is_not_there_outside(site):
    assert site.worker.closed and site.worker.port in listening_ports(site.worker.pid)
    assert site.worker.port not in listening_ports() and site.port in listening_ports()


INTRUDERS = {
    "without a certificate": (lambda folder, other: None, "no certificate"),
    "of another authority": (
        lambda folder, other: files(other, "coordinator"),
        "unable to get local issuer certificate",
    ),
    "expired": (lambda folder, other: files(folder, "coordinator-old"), "certificate has expired"),
    "another site": (lambda folder, other: files(folder, "b"), "unsuitable certificate purpose"),
}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("intruder", INTRUDERS)
def test_an_intruder_gets_nothing(intruder, version, site, folder, other):
    chosen, reason = INTRUDERS[intruder]
    shown = chosen(folder, other)
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    if shown:
        context.load_cert_chain(shown.cert, shown.key)
    received = b""
    with socket.create_connection(("localhost", site.port), timeout=5) as plain:
        port = plain.getsockname()[1]
        with pytest.raises(ssl.SSLError), context.wrap_socket(plain, server_hostname="localhost") as secured:
            secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            received = secured.recv(100)
    assert received == b""
    assert site.logged(f"refused 127.0.0.1:{port}: {reason}")


def test_who_does_not_speak_tls_gets_nothing(site):
    with socket.create_connection(("127.0.0.1", site.port), timeout=5) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        plain.shutdown(socket.SHUT_WR)
        answer = plain.recv(100)
        assert answer == b"" or answer[0] == 21  # at most a TLS alert
        assert site.logged(f"refused 127.0.0.1:{plain.getsockname()[1]}: ")


def test_old_tls_is_refused(site, folder):
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("localhost", site.port), timeout=5) as plain,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


def test_a_worker_that_is_killed_is_followed_by_another(site, folder):
    first = site.worker.pid
    os.kill(first, signal.SIGKILL)
    assert site.logged("the worker ended (status -9")
    np.testing.assert_allclose(mean_at(site, folder), [4, 5, 6])
    assert site.worker.pid != first


REFUSALS = {
    "another authority's certificate": ("coordinator", "not know the authority of --cert .*coordinator.pem"),
    "an expired certificate": ("coordinator-old", "it says that --cert .*coordinator-old.pem has expired"),
    "a site's certificate": ("b", "it does not take --cert .*b.pem"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_the_site_thinks_of_our_certificate(name, site, folder, other):
    file, message = REFUSALS[name]
    shown = files(other if "another" in name else folder, file)
    with pytest.raises(UserError, match=message):
        look(site.address, dataclasses.replace(shown, ca=str(folder / "ca.pem")))


def test_our_own_files_are_looked_at_first(folder):
    with pytest.raises(UserError, match=r"--cert .*coordinator-old.pem: expired on"):
        channel("localhost:1", files(folder, "coordinator-old"))


def test_another_federations_coordinator(site, other):
    with pytest.raises(UserError, match=r"its certificate is not from --ca .*other.*ca.pem"):
        channel(site.address, files(other, "coordinator"))


@contextlib.contextmanager
def answering(files: Certificates | None, host: str = "127.0.0.1"):
    """A server that shakes hands, with these certificates or not at all, and says nothing more."""
    with socket.create_server((host, 0)) as listener, contextlib.ExitStack() as stack:

        def answer() -> None:
            end = stack.enter_context(listener.accept()[0])
            if files is None:
                end.sendall(b"220 mail.example ready\r\n")
            else:
                with contextlib.suppress(OSError):
                    stack.enter_context(files.server_context().wrap_socket(end, server_side=True))

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"{host}:{listener.getsockname()[1]}"
        thread.join(timeout=10)


def test_a_site_whose_certificate_expired(folder):
    with (
        answering(files(folder, "old")) as address,
        pytest.raises(UserError, match="its certificate has expired; the site needs a new one"),
    ):
        channel(address, files(folder, "coordinator"))


def test_a_certificate_for_another_host(folder):
    with (
        answering(files(folder, "a"), "127.0.0.2") as address,
        pytest.raises(UserError, match=r"127.0.0.2:\d+: its certificate is for another host"),
    ):
        channel(address, files(folder, "coordinator"))


def test_a_port_of_something_else(folder):
    with answering(None) as address, pytest.raises(UserError, match="does not speak TLS; check the port"):
        channel(address, files(folder, "coordinator"))


def test_a_site_that_says_nothing(folder):
    with answering(files(folder, "a")) as address, pytest.raises(Unreachable, match=r"no answer within 0\.5 s"):
        channel(address, files(folder, "coordinator"), timeout=0.5)


def test_nobody_there(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    begin = time.monotonic()
    with pytest.raises(Unreachable, match=f"{address}: Connection refused; is the site running"):
        channel(address, files(folder, "coordinator"))
    assert time.monotonic() - begin < 10  # not for ever


def test_addresses():
    assert parse_address("--listen", "a.example:9000") == ("a.example", 9000)
    assert parse_address("--listen", "[::1]:0") == ("::1", 0)
    for wrong in ("9000", "a.example", ":9000", "a:port", "a:70000", "::1:9000"):
        with pytest.raises(UserError, match=f"--listen {wrong}: "):
            parse_address("--listen", wrong)
