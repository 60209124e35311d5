"""Certificate files, looked at before they are used: what is wrong with one is said in a line that names it."""

import datetime
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tffapps.errors import UserError
from tffapps.wire.certificates import Certificates

_RENEW = "make new ones with `python -m tffapps.site certs`, or ask whoever did"
_PURPOSES = {"site": ExtendedKeyUsageOID.SERVER_AUTH, "coordinator": ExtendedKeyUsageOID.CLIENT_AUTH}


def check(files: Certificates, role: str, name: str = "", now: datetime.datetime | None = None) -> None:
    """Raises a UserError unless a "site" (called `name`) or "coordinator" can use these files now."""
    chain = _certificates("--cert", files.cert)
    authorities = _certificates("--ca", files.ca)
    key = _read("--key", files.key, lambda content: serialization.load_pem_private_key(content, None))
    leaf = chain[0]
    if key.public_key() != leaf.public_key():
        raise UserError(f"--key {files.key}: does not belong to --cert {files.cert}; give the key that came with it")
    now = now or datetime.datetime.now(datetime.timezone.utc)
    for flag, file, certificates in (("--cert", files.cert, chain), ("--ca", files.ca, authorities)):
        for certificate in certificates:
            _check_time(flag, file, certificate, now)
    if not _leads_to(chain, authorities):
        raise UserError(f"--cert {files.cert}: not signed by --ca {files.ca}; give files of one federation")
    if not _is_for(leaf, role):
        raise UserError(f"--cert {files.cert}: not made for a {role}; give the {role}'s own certificate")
    if name and name not in names(leaf):
        raise UserError(f"--name {name}: --cert {files.cert} is for {', '.join(names(leaf))}; give one of these names")


def names(certificate: x509.Certificate) -> list[str]:
    """Who a certificate is for: its common name and its host names."""
    found = [str(field.value) for field in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return found
    return list(dict.fromkeys([*found, *extension.value.get_values_for_type(x509.DNSName)]))


def _certificates(flag: str, file: str) -> list[x509.Certificate]:
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


def _leads_to(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Whether each certificate is signed by the next, and some authority signed the last."""
    links = all(_signed(one, by) for one, by in itertools.pairwise(chain))
    return links and any(_signed(chain[-1], authority) or chain[-1] == authority for authority in authorities)


def _signed(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_for(certificate: x509.Certificate, role: str) -> bool:
    try:
        purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True  # for every purpose
    return _PURPOSES[role] in purposes or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in purposes
