"""How sums over sites are spoken of: a method that a site answers itself, and the step of a sum that it is asked for.

SUM     {"step": …, …} in JSON. "advertise", "deal", "shares", "confirm" and "unmask" are those of a secure sum
        (`tffapps.secure_sums`); "form" says what is to become of the worker's next answer to a computation.
"""

import json
from collections.abc import Sequence
from typing import Any

from cryptography import x509

from tffapps.wire import certificate_checks, revocation
from tffapps.wire.certificates import Certificates

SUM = "/tffapps.Site/Sum"
_MOST_BYTES = 2**26


def to_bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def from_bytes(content: bytes) -> dict[str, Any]:
    """ValueError if it is no table of fields."""
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{len(content)} bytes")
    try:
        fields = json.loads(content)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(fields, dict):
        raise ValueError("no table of fields")
    return fields


def why_not_a_site(certificates: Certificates, chain: Sequence[x509.Certificate], name: str) -> str:
    """Why a chain is not that of a site of this name in our federation; nothing if it is. Lists are read every time."""
    authorities = certificate_checks.read_certificates("--ca", certificates.ca)
    revoked = revocation.read(certificates.revoked, authorities) if certificates.revoked else None
    return certificate_checks.why_not(chain, authorities, "site", name, revoked=revoked)
