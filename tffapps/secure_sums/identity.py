"""Who says something in a secure sum: a signature by the key of a certificate, and what is checked of the latter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tffapps.secure_sums.agreement import Refused

# Whether a chain of certificates is one that a site of this name may have; a reason why not, or nothing.
Verdict = Callable[[list[x509.Certificate], str], str]


@dataclasses.dataclass(frozen=True)
class Identity:
    """Of one member: its name, its chain of certificates in PEM format, and the key of the first of them."""

    name: str
    chain: bytes
    key: Any

    @classmethod
    def from_pem(cls, name: str, chain: bytes, key: bytes) -> Identity:
        loaded = serialization.load_pem_private_key(key, None)
        if not isinstance(loaded, (ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey)):
            raise Refused("secure sums take certificates with EC or Ed25519 keys, as `site request` makes them")
        return cls(name, chain, loaded)

    def sign(self, content: bytes) -> bytes:
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return self.key.sign(content)
        return self.key.sign(content, ec.ECDSA(hashes.SHA256()))


def public_key(name: str, chain: bytes, verdict: Verdict) -> Any:
    """The key that a member's signatures are checked with, if its certificate is good for its name."""
    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except ValueError:
        raise Refused(f"{name}: no certificate") from None
    why = verdict(certificates, name)
    if why:
        raise Refused(f"{name}: {why}")
    return certificates[0].public_key()


def check_signature(name: str, key: Any, signature: bytes, content: bytes) -> None:
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            return key.verify(signature, content)
        if isinstance(key, ec.EllipticCurvePublicKey):
            return key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        pass
    raise Refused(f"{name}: a signature that is not its own")
