"""A small certificate authority for a trial federation.

A site's certificate is for servers only and the coordinator's for clients only, so that a site cannot pose as the
coordinator towards another site. `authority` signs requests instead, of members that make their own keys.
"""

import dataclasses
import datetime
import ipaddress
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tffapps.errors import UserError
from tffapps.site import LEAF_DAYS
from tffapps.wire.certificate_checks import COORDINATOR

AUTHORITY = "ca"
AUTHORITY_DAYS = 5 * 365
_MOST_DAYS = 20 * 365
_CLOCKS_DIFFER = datetime.timedelta(hours=1)  # a certificate is valid a little earlier than it was made
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")


@dataclasses.dataclass(frozen=True)
class Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def files(self, name: str) -> dict[str, bytes]:
        certificate = self.certificate.public_bytes(serialization.Encoding.PEM)
        return {f"{name}.pem": certificate, f"{name}.key": key_bytes(self.key)}


def key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def write(
    folder: Path,
    names: Sequence[str],
    *,
    days: int = LEAF_DAYS,
    hosts: Mapping[str, Sequence[str]] | None = None,
    now: datetime.datetime | None = None,
    coordinator: bool = True,
) -> list[str]:
    """Makes `folder` with a new authority's files, those of each name and the coordinator's; returns their names.

    `hosts` are the host names or addresses under which a site is reached, beside its name and this machine's own.
    The folder appears whole or not at all.
    """
    hosts = hosts or {}
    if coordinator:
        _check(names, days, hosts)
    folder = Path(os.path.abspath(folder))
    _check_free(folder)
    now = now or datetime.datetime.now(datetime.timezone.utc)
    authority = _authority(now, max(AUTHORITY_DAYS, days))
    files = authority.files(AUTHORITY)
    for name in (*names, *([COORDINATOR] if coordinator else [])):
        files.update(_leaf(authority, name, hosts.get(name, ()), now, days).files(name))
    _write_all(folder, files)
    return list(files)


def parse_hosts(text: str) -> dict[str, list[str]]:
    """`a=a.example,a=10.0.0.2,b=b.example` as {"a": ["a.example", "10.0.0.2"], "b": ["b.example"]}."""
    found: dict[str, list[str]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, host = (piece.strip() for piece in part.partition("="))
        if not (name and equals and host):
            raise UserError(f"--hosts {part}: expected NAME=HOST, several with commas between them")
        found.setdefault(name, []).append(host)
    return found


def _check(names: Sequence[str], days: int, hosts: Mapping[str, Sequence[str]]) -> None:
    if not names:
        raise UserError("--names: give at least one site, such as --names a,b")
    for name in names:
        check_name("--names", name)
    if len({name.lower() for name in names}) < len(names):
        raise UserError(f"--names {','.join(names)}: give each name once")
    check_days(days)
    for name, listed in hosts.items():
        if name not in names:
            raise UserError(f"--hosts {name}=…: no such name in --names {','.join(names)}")
        check_hosts(name, listed)


def check_name(flag: str, name: str, allow_coordinator: bool = False) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(f"{flag} {name}: use letters, digits, dots, hyphens and underscores, at most 63 of them")
    if name.lower() in (AUTHORITY, COORDINATOR) and not (allow_coordinator and name == COORDINATOR):
        raise UserError(f"{flag} {name}: this name is taken by the federation itself; choose another")


def check_days(days: int) -> None:
    if not 1 <= days <= _MOST_DAYS:
        raise UserError(f"--days {days}: must be from 1 to {_MOST_DAYS}")


def check_hosts(name: str, hosts: Sequence[str]) -> None:
    for host in hosts:
        if not (_is_address(host) or _HOST.fullmatch(host)):
            raise UserError(f"--hosts {name}={host}: neither a host name nor an address (give no port)")


def _check_free(folder: Path) -> None:
    try:
        there = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"-o {folder}: {error.strerror}; give a new folder") from None
    if there:
        raise UserError(f"-o {folder}: holds {there[0]} already; give a new or an empty folder")


def _authority(now: datetime.datetime, days: int) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own: files of two authorities are told apart by it in every error message.
    own = subject(f"tffapps authority {secrets.token_hex(4)}")
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(own, own, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def _leaf(authority: Pair, name: str, hosts: Sequence[str], now: datetime.datetime, days: int) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    return Pair(leaf_certificate(authority, name, key.public_key(), hosts, now, days), key)


def leaf_certificate(
    authority: Pair, name: str, key: Any, hosts: Sequence[str], now: datetime.datetime, days: int
) -> x509.Certificate:
    """For a member's public key. Where no host is named it is reached on this machine: a trial."""
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if name == COORDINATOR else ExtendedKeyUsageOID.SERVER_AUTH
    reached = dict.fromkeys([name, *(hosts or ("localhost", "127.0.0.1"))])
    issuer = authority.certificate
    builder = (
        _builder(subject(name), issuer.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in reached]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
    )
    return builder.sign(authority.key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Any, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(**allowed: bool) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: allowed.get(name, False) for name in names})


def _general_name(host: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    unfinished = ""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent)
        for name, content in files.items():
            mode = 0o600 if name.endswith(".key") else 0o644
            write_new(Path(unfinished, name), content, mode)
        os.rename(unfinished, folder)  # over an empty folder, but never over one that has files
    except OSError as error:
        raise UserError(f"-o {folder}: cannot be written ({error.strerror})") from None
    finally:
        if unfinished:
            shutil.rmtree(unfinished, ignore_errors=True)


def write_new(file: Path, content: bytes, mode: int) -> None:
    """Never over a file that is there."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(content)
