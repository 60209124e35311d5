"""The certificates of a trial federation: what they say, who verifies them, and how they are written."""

import datetime
import ipaddress
import os
import ssl
import stat
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.test_commands import PROBE, environment
from tffapps.errors import UserError
from tffapps.site import certs
from tffapps.site.__main__ import main

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)


def certificate(file) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation") / "certificates"
    certs.write(folder, ["a", "b"], hosts={"a": ["a.example", "10.0.0.2"]}, now=NOW)
    return folder


def test_there_is_a_pair_for_everyone(folder):
    names = ["a.key", "a.pem", "b.key", "b.pem", "ca.key", "ca.pem", "coordinator.key", "coordinator.pem"]
    assert sorted(os.listdir(folder)) == names
    for name in names:
        mode = stat.S_IMODE((folder / name).stat().st_mode)
        assert mode & 0o077 == 0 if name.endswith(".key") else mode & 0o444 == 0o444
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not [name for name in os.listdir(folder.parent) if name != folder.name]  # no temporary folder


def test_keys_belong_to_certificates_that_the_authority_signed(folder):
    authority = certificate(folder / "ca.pem")
    authority.verify_directly_issued_by(authority)
    for name in ("a", "b", "coordinator"):
        certificate(folder / f"{name}.pem").verify_directly_issued_by(authority)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")


def test_what_a_certificate_says(folder):
    leaf, authority = certificate(folder / "a.pem"), certificate(folder / "ca.pem")
    assert leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "a"
    assert leaf.not_valid_after_utc == NOW + datetime.timedelta(days=365)
    assert leaf.not_valid_before_utc < NOW
    assert authority.not_valid_after_utc == NOW + datetime.timedelta(days=1825)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a", "a.example"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.2")]
    trial = certificate(folder / "b.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert trial.get_values_for_type(x509.DNSName) == ["b", "localhost"]  # no host named: for this machine
    assert leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    constraint = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert constraint.ca is True and constraint.path_length == 0


def test_a_site_is_a_server_and_the_coordinator_a_client(folder):
    def purposes(name):
        return list(certificate(folder / name).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)

    assert purposes("a.pem") == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert purposes("coordinator.pem") == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_an_authority_outlives_what_it_signed(tmp_path):
    certs.write(tmp_path / "long", ["a"], days=4000, now=NOW)
    assert certificate(tmp_path / "long" / "ca.pem").not_valid_after_utc == NOW + datetime.timedelta(days=4000)


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    assert main(["certs", "--names", "a", "-o", str(tmp_path / "empty")]) == 0
    assert (tmp_path / "empty" / "a.pem").exists()


MISTAKES = {
    "no names": ({"names": ","}, "--names: give at least one site"),
    "a name that is a path": ({"names": "a,../b"}, "--names ../b: use letters"),
    "a name twice": ({"names": "a,A"}, "--names a,A: give each name once"),
    "a taken name": ({"names": "coordinator"}, "--names coordinator: this name is taken"),
    "no time": ({"days": "0"}, "--days 0: must be from 1 to"),
    "hosts without a name": ({"hosts": "a.example"}, "--hosts a.example: expected NAME=HOST"),
    "hosts of nobody": ({"hosts": "z=z.example"}, "--hosts z=…: no such name in --names a,b"),
    "a host with a port": ({"hosts": "a=a.example:9000"}, "--hosts a=a.example:9000: neither a host name"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, tmp_path, capsys):
    changed, message = MISTAKES[mistake]
    flags = {"names": "a,b", "days": "30", "hosts": "", **changed}
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    assert main(["certs", *arguments, "-o", str(tmp_path / "new")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not os.listdir(tmp_path)


def test_another_federations_folder_is_left_alone(folder, capsys):
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    assert main(["certs", "--names", "c", "-o", str(folder)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"-o {folder}: holds a.key already" in line
    assert before == {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def test_nothing_is_half_written(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(UserError, match="cannot be written"):
        certs.write(tmp_path / "new", ["a"])
    assert not os.listdir(tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/new"):
        certs.write(tmp_path / "file" / "new", ["a"])


def test_help_does_not_wait_for_tensorflow():
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(module="tffapps.site")],
        env=environment(), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "usage: python -m tffapps.site" in done.stdout and "certs" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
