"""Who is let in: keys made where they are used, one coordinator, fixed names, and nobody who was revoked."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import re
import shutil
import socket
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.engine.closed import need_namespaces
from tests.site.conftest import files
from tffapps.errors import UserError
from tffapps.site import authority, certs
from tffapps.site.__main__ import main
from tffapps.site.guarded_worker import GuardedWorker
from tffapps.wire import certificate_checks, waiting_room
from tffapps.wire.admission import Admission, parse_fingerprints
from tffapps.wire.certificates import Certificates
from tffapps.wire.channel import Unreachable, look
from tffapps.wire.tls_proxy import TlsProxy
from tffapps.wire.waiting_room import WaitingRoom

NOW = datetime.datetime.now(datetime.timezone.utc)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def made(folder: pathlib.Path, stored: str, name: str, purposes) -> None:
    """A certificate of the federation's own authority, with any purposes."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority._pair(folder)
    builder = (
        x509.CertificateBuilder().subject_name(certs.subject(name)).issuer_name(issuer.certificate.subject)
        .public_key(key.public_key()).serial_number(x509.random_serial_number())
        .not_valid_before(NOW - datetime.timedelta(hours=1)).not_valid_after(NOW + datetime.timedelta(days=9))
    )  # fmt: skip
    if purposes:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    pair = certs.Pair(builder.sign(issuer.key, hashes.SHA256()), key)
    for file, content in pair.files(stored).items():
        (folder / file).write_bytes(content)
        (folder / file).chmod(0o600)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """With certificates that the authority would not have made with our commands."""
    folder = tmp_path_factory.mktemp("identity") / "certificates"
    certs.write(folder, ["a", "b"])
    made(folder, "laptop", "nurse-laptop-17", [CLIENT])
    made(folder, "purposeless", "coordinator", [])
    made(folder, "both", "coordinator", [CLIENT, SERVER])
    made(folder, "second", "coordinator", [CLIENT])
    authority.revoke(folder / "second.pem", folder)
    return folder


class Door:
    """A site's door as it is in front of a worker, and the log; inside is a socket that greets."""

    def __init__(self, federation, pins=()) -> None:
        import logging
        import threading

        self.lines: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"localhost:{self._listener.getsockname()[1]}"
        log = logging.Logger("door")
        log.addHandler(handler := logging.Handler())
        handler.emit = lambda record: self.lines.append(record.getMessage())  # type: ignore[method-assign]
        shown = Certificates(*files(federation, "a").paths(), revoked=str(federation / authority.REVOKED))
        door = TlsProxy(self._listener, shown.server_context(), self._inside, log, Admission(shown, pins).why_not)

        def attend() -> None:
            while door.accept():
                pass

        threading.Thread(target=attend, daemon=True).start()

    def _inside(self, who: str) -> socket.socket:
        here, there = socket.socketpair()
        there.send(b"\0\0\0\4\0\0\0\0\0")
        self._kept = there
        return here

    def said(self, words: str) -> bool:
        """Whether a line ends with these words, within some seconds."""
        deadline = time.monotonic() + 5
        while not (there := any(line.endswith(words) for line in self.lines)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return there

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def door_of(federation, pins=()):
    with contextlib.closing(Door(federation, pins)) as door:
        yield door


REFUSED = {
    "laptop": "nurse-laptop-17 is not the coordinator",
    "purposeless": "the certificate of coordinator is not made for a coordinator alone",
    "both": "the certificate of coordinator is not made for a coordinator alone",
    "second": "the certificate of coordinator was revoked",
}


def test_one_kind_of_certificate_opens_the_door(federation):
    with door_of(federation) as door:
        look(door.address, files(federation, "coordinator"))
        for stored, why in REFUSED.items():
            with pytest.raises(Unreachable, match="it may not let this coordinator in"):
                look(door.address, files(federation, stored))
            assert door.said(why)
            door.lines.clear()


def test_with_a_fingerprint_it_is_that_certificate_alone(federation, capsys):
    assert main(["fingerprint", str(federation / "laptop.pem")]) == 0
    pins = parse_fingerprints(capsys.readouterr().out.strip().upper())
    with door_of(federation, pins) as door:
        look(door.address, files(federation, "laptop"))
        with pytest.raises(Unreachable):
            look(door.address, files(federation, "coordinator"))
        assert door.said("is not the one that --coordinator names")
    with pytest.raises(UserError, match="--coordinator 12:34: not a fingerprint; `tffapps site fingerprint"):
        parse_fingerprints("12:34")


def test_who_is_revoked_is_out_at_once_at_both_ends(federation, tmp_path):
    lists = tmp_path / "lists"
    lists.mkdir()
    for name in ("ca.pem", "ca.key"):
        shutil.copy(federation / name, lists)
    made(federation, "third", "coordinator", [CLIENT])
    with door_of(federation) as door:
        look(door.address, files(federation, "third"))
        before = (federation / authority.REVOKED).read_bytes()
        try:
            authority.revoke(federation / "third.pem", federation)
            with pytest.raises(Unreachable):
                look(door.address, files(federation, "third"))
            assert door.said("was revoked")
        finally:
            (federation / authority.REVOKED).write_bytes(before)
        look(door.address, files(federation, "third"))
        revoked = str(authority.revoke(federation / "a.pem", lists))
        shown = Certificates(*files(federation, "coordinator").paths(), revoked=revoked)
        with pytest.raises(UserError, match=r"the certificate of a was revoked \(--revoked"):
            look(door.address, shown)
    with pytest.raises(UserError, match=r"--cert .*a.pem: revoked by its authority"):
        certificate_checks.check(Certificates(*files(federation, "a").paths(), revoked=revoked), "site", "a")


def test_a_list_of_another_authority_is_none(federation, other, tmp_path):
    revoked = authority.revoke(other / "b.pem", other)
    shown = Certificates(*files(federation, "a").paths(), revoked=str(revoked))
    with pytest.raises(UserError, match=r"--revoked .*: not signed by --ca; give the list of the same authority"):
        certificate_checks.check(shown, "site", "a")
    with pytest.raises(UserError, match=r"b.pem: not signed by .*ca.pem"):
        authority.revoke(other / "b.pem", federation)
    (tmp_path / "nonsense").write_text("nothing")
    with pytest.raises(UserError, match="not a revocation list in PEM format"):
        certificate_checks.check(Certificates(*shown.paths(), revoked=str(tmp_path / "nonsense")), "site", "a")


def test_keys_that_others_can_read_are_refused(federation, tmp_path, capsys):
    key = tmp_path / "a.key"
    key.write_bytes((federation / "a.key").read_bytes())
    shown = Certificates(str(federation / "a.pem"), str(key), str(federation / "ca.pem"))
    for mode in (0o640, 0o604, 0o620):
        key.chmod(mode)
        with pytest.raises(UserError, match=rf"--key .*a.key: others can read or change it \(mode {mode:o}\); chmod"):
            certificate_checks.check(shown, "site", "a")
    key.chmod(0o400)
    certificate_checks.check(shown, "site", "a")
    authority.make(tmp_path / "authority")
    (tmp_path / "authority/ca.key").chmod(0o644)  # the key that makes all others
    assert main(["revoke", str(federation / "b.pem"), "--authority", str(tmp_path / "authority")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(r"--authority .*ca.key: others can read or change it \(mode 644\); chmod 600 it$", line)


def test_only_requests_travel(tmp_path, capsys):
    """An authority, a site and a coordinator that each make their own key; then they meet."""
    place = {name: tmp_path / name for name in ("authority", "north", "coordinator")}
    assert main(["authority", "-o", str(place["authority"])]) == 0
    assert sorted(file.name for file in place["authority"].iterdir()) == ["ca.key", "ca.pem"]
    for name in ("north", "coordinator"):
        assert main(["request", "--name", name, "-o", str(place[name])]) == 0
        request, output = place[name] / f"{name}.csr", place[name] / f"{name}.pem"
        assert b"PRIVATE" not in request.read_bytes() and (place[name] / f"{name}.key").stat().st_mode & 0o077 == 0
        signing = ["sign", str(request), "--authority", str(place["authority"]), "-o", str(output)]
        assert main([*signing, "--name", "south"]) == 2
        assert f"a request of {name}, not of --name south" in capsys.readouterr().err
        assert main([*signing, "--name", name]) == 0
        (place[name] / "ca.pem").write_bytes((place["authority"] / "ca.pem").read_bytes())
    certificate_checks.check(files(place["north"], "north"), "site", "north")
    certificate_checks.check(files(place["coordinator"], "coordinator"), "coordinator")
    assert main(["request", "--name", "north", "-o", str(place["north"])]) == 2
    assert "holds north.key already" in capsys.readouterr().err
    changed = bytearray(x509.load_pem_x509_csr((place["north"] / "north.csr").read_bytes()).public_bytes(
        serialization.Encoding.DER
    ))  # fmt: skip
    changed[-1] ^= 1
    with pytest.raises(UserError, match=r"its signature is wrong|not a request"):
        bad = x509.load_der_x509_csr(bytes(changed)).public_bytes(serialization.Encoding.PEM)
        (tmp_path / "bad.csr").write_bytes(bad)
        authority.sign(tmp_path / "bad.csr", "north", place["authority"], tmp_path / "bad.pem", (), 30)


def test_a_site_has_one_name(federation):
    certificate_checks.check(files(federation, "a"), "site", "a")
    with pytest.raises(UserError, match=r"--name localhost: --cert .*a.pem is for a; give this name"):
        certificate_checks.check(files(federation, "a"), "site", "localhost")


def test_idle_strangers_lock_nobody_out(folder):
    need_namespaces()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    worker = GuardedWorker(listener, name="site a", certificates=files(folder, "a"))
    with contextlib.ExitStack() as stack:
        stack.callback(worker.stop)
        for _ in range(70):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        for _ in range(10):
            look(f"localhost:{port}", files(folder, "coordinator"))


def test_a_handshake_byte_by_byte_ends(federation, monkeypatch):
    monkeypatch.setattr(waiting_room.shake_hands, "__defaults__", (0.4,))
    outgoing = ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    with door_of(federation) as door, socket.create_connection(("localhost", int(door.address[10:]))) as slow:
        with contextlib.suppress(OSError):
            for byte in outgoing.read():  # some 500 of them: half a minute
                slow.send(bytes([byte]))
                if any("no handshake in time" in line for line in door.lines):
                    break
                time.sleep(0.05)
        assert door.said("no handshake in time")


def test_who_leaves_a_full_waiting_room():
    room = WaitingRoom(most_of_address=2, most=3)
    pairs = [socket.socketpair() for _ in range(5)]
    ours = [pair[0] for pair in pairs]
    for connection, host in zip(ours, ("x", "x", "x", "y", "z")):
        room.enter(connection, host)
    # The third x took the first one's place; then z took that of the oldest of x, which had most.
    assert [room.leave(connection) for connection in ours] == [False, False, True, True, True]
    assert pairs[0][1].recv(1) == b""
    pairs[2][1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pairs[2][1].recv(1)
    for pair in pairs:
        pair[0].close()
        pair[1].close()


def test_tls_itself_refuses_a_site_as_coordinator(federation):
    with door_of(federation) as door:
        context = ssl.create_default_context(cafile=str(federation / "ca.pem"))
        context.load_cert_chain(federation / "b.pem", federation / "b.key")
        context.set_alpn_protocols(["h2"])
        with (
            pytest.raises(ssl.SSLError),
            socket.create_connection(("localhost", int(door.address[10:])), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            secured.recv(1)
