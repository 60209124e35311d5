"""Whom one end of a connection goes on with, once TLS has found the other's certificate to be of its authority."""

from __future__ import annotations

import dataclasses
import re

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from tffapps.errors import UserError
from tffapps.wire import certificate_checks, revocation
from tffapps.wire.certificates import Certificates

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def parse_fingerprints(text: str) -> tuple[str, ...]:
    """Of a flag: several with commas between them, with or without colons."""
    found = tuple(part.strip().replace(":", "").lower() for part in text.split(",") if part.strip())
    for one in found:
        if not _FINGERPRINT.fullmatch(one):
            raise UserError(
                f"--coordinator {text:.80}: not a fingerprint; `tffapps site fingerprint coordinator.pem` prints it"
            )
    return found


@dataclasses.dataclass(frozen=True)
class Admission:
    """Of a site: which coordinators. With `pins` these certificates alone; without, one made for the coordinator."""

    certificates: Certificates
    pins: tuple[str, ...] = ()

    def why_not(self, content: bytes) -> str:
        """Why the owner of this certificate, in DER format, does not come in; nothing if it does."""
        try:
            caller = x509.load_der_x509_certificate(content)
            name = certificate_checks.common_name(caller)
            if not certificate_checks.is_for(caller, "coordinator"):
                return f"the certificate of {name:.60} is not made for a coordinator alone"
            if self.pins:
                if fingerprint(caller) not in self.pins:
                    return f"the certificate of {name:.60} is not the one that --coordinator names"
            elif name != certificate_checks.COORDINATOR:
                return f"{name:.60} is not the coordinator"
            if self.certificates.revoked:
                # Read every time: who is put on the list is out at once.
                authorities = certificate_checks.read_certificates("--ca", self.certificates.ca)
                if revocation.is_revoked(caller, revocation.read(self.certificates.revoked, authorities)):
                    return f"the certificate of {name:.60} was revoked"
        except (UserError, ValueError) as error:
            return str(error)
        return ""
