"""Certificates that count no more: a list in PEM format, signed by the authority that signed them."""

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from tffapps.errors import UserError


def read(file: str, authorities: Sequence[x509.Certificate]) -> x509.CertificateRevocationList:
    """The list, if one of the authorities has signed it."""
    try:
        found = x509.load_pem_x509_crl(Path(file).read_bytes())
    except OSError as error:
        raise UserError(f"--revoked {file}: cannot be read ({error.strerror}); give the authority's list") from None
    except ValueError:
        raise UserError(f"--revoked {file}: not a revocation list in PEM format; `site revoke` makes one") from None
    if not any(_signed(found, authority) for authority in authorities):
        raise UserError(f"--revoked {file}: not signed by --ca; give the list of the same authority")
    return found


def is_revoked(certificate: x509.Certificate, revoked: x509.CertificateRevocationList) -> bool:
    entry = revoked.get_revoked_certificate_by_serial_number(certificate.serial_number)
    return entry is not None and certificate.issuer == revoked.issuer


def _signed(revoked: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return revoked.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False
