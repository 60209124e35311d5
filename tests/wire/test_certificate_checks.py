"""Certificate files: each thing that can be wrong with them is one line that names the file."""

import dataclasses
import datetime

import pytest
from cryptography.hazmat.primitives import serialization

from tests.site.conftest import files
from tffapps.errors import UserError
from tffapps.wire.certificate_checks import check


def test_good_files(folder):
    check(files(folder, "a"), "site", "a")
    check(files(folder, "coordinator"), "coordinator")


def replaced(field: str, file: str):
    return lambda folder, other: dataclasses.replace(files(folder, "a"), **{field: str(folder / file)})


MISTAKES = {
    "no certificate": (replaced("cert", "nothing.pem"), r"--cert .*nothing.pem: no such file"),
    "no key": (replaced("key", "nothing.key"), r"--key .*nothing.key: no such file"),
    "no authority": (replaced("ca", "nothing.pem"), r"--ca .*nothing.pem: no such file"),
    "a folder": (replaced("ca", "."), r"--ca .*: cannot be read \(Is a directory\)"),
    "a key for a certificate": (replaced("cert", "a.key"), r"--cert .*a.key: not a certificate in PEM format"),
    "a certificate for a key": (replaced("key", "a.pem"), r"--key .*a.pem: not a key in PEM format"),
    "another's key": (replaced("key", "b.key"), r"--key .*b.key: does not belong to --cert .*a.pem"),
    "an expired one": (lambda folder, other: files(folder, "old"), r"--cert .*old.pem: expired on 2020-01-31"),
    "another authority": (
        lambda folder, other: dataclasses.replace(files(folder, "a"), ca=str(other / "ca.pem")),
        r"--cert .*a.pem: not signed by --ca .*other.*ca.pem",
    ),
    "the coordinator's": (lambda folder, other: files(folder, "coordinator"), r"not made for a site"),
    "another's name": (lambda folder, other: files(folder, "b"), r"--name a: --cert .*b.pem is for b; give this name"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_line(mistake, folder, other):
    wrong, message = MISTAKES[mistake]
    with pytest.raises(UserError, match=message) as caught:
        check(wrong(folder, other), "site", "a")
    assert "\n" not in str(caught.value)


def test_a_site_is_no_coordinator(folder):
    with pytest.raises(UserError, match=r"a.pem: not made for a coordinator"):
        check(files(folder, "a"), "coordinator")


def test_a_clock_that_is_behind(folder):
    with pytest.raises(UserError, match=r"a.pem: not valid before 2.* UTC; set this machine's clock"):
        check(files(folder, "a"), "site", now=datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc))


def test_a_key_with_a_password(folder, tmp_path):
    key = serialization.load_pem_private_key((folder / "a.key").read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    (tmp_path / "a.key").write_bytes(content)
    with pytest.raises(UserError, match=r"a.key: protected by a password"):
        check(dataclasses.replace(files(folder, "a"), key=str(tmp_path / "a.key")), "site")
