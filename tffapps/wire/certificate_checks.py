"""Certificate files, looked at before they are used: what is wrong with one is said in a line that names it."""

import datetime
import itertools
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tffapps.errors import UserError
from tffapps.wire import revocation
from tffapps.wire.certificates import Certificates

COORDINATOR = "coordinator"  # the name on its certificate
_RENEW = "make new ones with `python -m tffapps.site certs`, or ask whoever did"
_PURPOSES = {"site": ExtendedKeyUsageOID.SERVER_AUTH, "coordinator": ExtendedKeyUsageOID.CLIENT_AUTH}


def check(files: Certificates, role: str, name: str = "", now: datetime.datetime | None = None) -> None:
    """Raises a UserError unless a "site" (called `name`) or "coordinator" can use these files now."""
    chain = read_certificates("--cert", files.cert)
    authorities = read_certificates("--ca", files.ca)
    key = _read("--key", files.key, lambda content: serialization.load_pem_private_key(content, None))
    check_private("--key", files.key)
    leaf = chain[0]
    if key.public_key() != leaf.public_key():
        raise UserError(f"--key {files.key}: does not belong to --cert {files.cert}; give the key that came with it")
    now = now or datetime.datetime.now(datetime.timezone.utc)
    for flag, file, certificates in (("--cert", files.cert, chain), ("--ca", files.ca, authorities)):
        for certificate in certificates:
            _check_time(flag, file, certificate, now)
    if not signed(chain, authorities):
        raise UserError(f"--cert {files.cert}: not signed by --ca {files.ca}; give files of one federation")
    if not is_for(leaf, role):
        raise UserError(f"--cert {files.cert}: not made for a {role} alone; give the {role}'s own certificate")
    if name and name != common_name(leaf):
        raise UserError(f"--name {name}: --cert {files.cert} is for {common_name(leaf)}; give this name")
    if files.revoked and revocation.is_revoked(leaf, revocation.read(files.revoked, authorities)):
        raise UserError(f"--cert {files.cert}: revoked by its authority (--revoked {files.revoked}); {_RENEW}")


def why_not(
    chain: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
    role: str,
    name: str,
    now: datetime.datetime | None = None,
    revoked: x509.CertificateRevocationList | None = None,
) -> str:
    """Why another member's certificate is not one of a "site" or "coordinator" called `name`; nothing if it is."""
    now = now or datetime.datetime.now(datetime.timezone.utc)
    if not chain or not signed(chain, authorities):
        return "its certificate is not from the authority of this federation"
    if any(not one.not_valid_before_utc <= now <= one.not_valid_after_utc for one in chain):
        return "its certificate is not valid now"
    if not is_for(chain[0], role):
        return f"its certificate is not made for a {role}"
    if common_name(chain[0]) != name:
        return f"its certificate is for {common_name(chain[0]) or 'nobody'}"
    if revoked is not None and revocation.is_revoked(chain[0], revoked):
        return "its certificate was revoked"
    return ""


def common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def read_certificates(flag: str, file: str) -> list[x509.Certificate]:
    return _read(flag, file, x509.load_pem_x509_certificates)


def _read(flag: str, file: str, parse: Callable[[bytes], Any]) -> Any:
    try:
        content = Path(file).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{flag} {file}: no such file; {_RENEW}") from None
    except OSError as error:
        raise UserError(f"{flag} {file}: cannot be read ({error.strerror}); check its permissions") from None
    try:
        return parse(content)
    except TypeError:
        raise UserError(f"{flag} {file}: protected by a password; give a key without one") from None
    except ValueError:
        kind = "key" if flag == "--key" else "certificate"
        raise UserError(f"{flag} {file}: not a {kind} in PEM format; {_RENEW}") from None


def _check_time(flag: str, file: str, certificate: x509.Certificate, now: datetime.datetime) -> None:
    if now > certificate.not_valid_after_utc:
        raise UserError(f"{flag} {file}: expired on {certificate.not_valid_after_utc:%Y-%m-%d}; {_RENEW}")
    if now < certificate.not_valid_before_utc:
        day = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        raise UserError(f"{flag} {file}: not valid before {day}; set this machine's clock, or wait")


def signed(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Whether each certificate is signed by the next, and some authority signed the last."""
    links = all(_signed_by(one, by) for one, by in itertools.pairwise(chain))
    return links and any(_signed_by(chain[-1], authority) or chain[-1] == authority for authority in authorities)


def _signed_by(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def is_for(certificate: x509.Certificate, role: str) -> bool:
    """Whether it says what it is for, and that is this role and not the other."""
    try:
        purposes = set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return False
    others = {ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, *_PURPOSES.values()} - {_PURPOSES[role]}
    return _PURPOSES[role] in purposes and not purposes & others


def check_private(flag: str, file: str) -> None:
    """A UserError if others than its owner can read a key's file."""
    mode = stat.S_IMODE(os.stat(file).st_mode)
    if mode & 0o077:
        raise UserError(f"{flag} {file}: others can read or change it (mode {mode:03o}); chmod 600 it")
