"""An authority's own work: signing requests that members have made, and taking certificates back.

Keys are made where they are used and stay there: a member makes a key and a request, and only the request travels.
"""

import datetime
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tffapps.errors import UserError
from tffapps.files import replacing
from tffapps.site import certs
from tffapps.wire import certificate_checks, revocation

REVOKED = "revoked.pem"
_PEM = serialization.Encoding.PEM


def make(folder: Path) -> None:
    """An authority alone: `folder` with ca.pem and ca.key."""
    certs.write(folder, (), coordinator=False)


def request(folder: Path, name: str) -> None:
    """<name>.key, which stays here, and <name>.csr, which goes to the authority."""
    certs.check_name("--name", name, allow_coordinator=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = certs.subject(name)
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    for suffix in ("key", "csr"):
        if (folder / f"{name}.{suffix}").exists():
            raise UserError(f"-o {folder}: holds {name}.{suffix} already; give another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        certs.write_new(folder / f"{name}.key", certs.key_bytes(key), 0o600)
        certs.write_new(folder / f"{name}.csr", asked.public_bytes(_PEM), 0o644)
    except OSError as error:
        raise UserError(f"-o {folder}: cannot be written ({error.strerror})") from None


def sign(file: Path, name: str, authority: Path, output: Path, hosts: Sequence[str], days: int) -> x509.Certificate:
    """The certificate for a request, which must be for this very name: whoever signs says whom it is from."""
    certs.check_name("--name", name, allow_coordinator=True)
    certs.check_days(days)
    certs.check_hosts(name, hosts)
    asked = _read(file, "a request", x509.load_pem_x509_csr)
    found = [str(field.value) for field in asked.subject]
    if found != [name]:
        raise UserError(f"{file}: a request of {', '.join(found) or 'nobody'}, not of --name {name}")
    if not asked.is_signature_valid:
        raise UserError(f"{file}: its signature is wrong; ask for the request again")
    now = datetime.datetime.now(datetime.timezone.utc)
    made = certs.leaf_certificate(_pair(authority), name, asked.public_key(), hosts, now, days)
    try:
        certs.write_new(output, made.public_bytes(_PEM), 0o644)
    except OSError as error:
        raise UserError(f"-o {output}: cannot be written ({error.strerror})") from None
    return made


def revoke(file: Path, authority: Path) -> Path:
    """Puts a certificate on the authority's list; returns the list's file."""
    pair = _pair(authority)
    taken = _read(file, "a certificate", x509.load_pem_x509_certificate)
    if not certificate_checks.signed([taken], [pair.certificate]):
        raise UserError(f"{file}: not signed by {authority / certs.AUTHORITY}.pem; ask the authority that did")
    place = authority / REVOKED
    now = datetime.datetime.now(datetime.timezone.utc)
    entries = list(revocation.read(str(place), [pair.certificate])) if place.exists() else []
    if taken.serial_number not in [entry.serial_number for entry in entries]:
        serial = x509.RevokedCertificateBuilder().serial_number(taken.serial_number)
        entries.append(serial.revocation_date(now).build())
    builder = x509.CertificateRevocationListBuilder().issuer_name(pair.certificate.subject)
    builder = builder.last_update(now).next_update(now + datetime.timedelta(days=certs.AUTHORITY_DAYS))
    for entry in entries:
        builder = builder.add_revoked_certificate(entry)
    with replacing(place, "wb") as out:
        out.write(builder.sign(pair.key, hashes.SHA256()).public_bytes(_PEM))
    return place


def certificate(file: Path) -> x509.Certificate:
    return _read(file, "a certificate", x509.load_pem_x509_certificate)


def _pair(folder: Path) -> certs.Pair:
    file = folder / f"{certs.AUTHORITY}.key"
    key = _read(file, "a key", lambda content: serialization.load_pem_private_key(content, None))
    certificate_checks.check_private("--authority", os.fspath(file))
    return certs.Pair(certificate(folder / f"{certs.AUTHORITY}.pem"), key)


def _read(file: Path, what: str, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(file.read_bytes())
    except OSError as error:
        raise UserError(f"{os.fspath(file)}: cannot be read ({error.strerror})") from None
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise UserError(f"{os.fspath(file)}: not {what} in PEM format") from None
