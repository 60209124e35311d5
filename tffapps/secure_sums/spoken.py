"""What members say in a secure sum, as fields that JSON can hold: read strictly, since anyone may have sent it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from typing import Any

from tffapps.secure_sums.agreement import Agreement, Refused
from tffapps.secure_sums.identity import Identity, Verdict, check_signature, public_key

_MOST_LETTERS = 2**16
_KEY_BYTES = 32


def to_text(content: bytes) -> str:
    return content.hex()


def to_bytes(text: Any) -> bytes:
    if not isinstance(text, str) or len(text) > _MOST_LETTERS:
        raise Refused("text where bytes were expected")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise Refused("text where bytes were expected") from None


def table(fields: Any, allowed: Iterable[str]) -> dict[str, Any]:
    """A table with no keys but these."""
    if not isinstance(fields, dict) or not set(fields) <= set(allowed):
        raise Refused("a table with other names than was agreed on")
    return fields


@dataclasses.dataclass(frozen=True)
class Advert:
    """Step 1: the two public keys of a member for one sum, signed."""

    name: str
    cipher_key: bytes  # others encrypt its shares with it
    mask_key: bytes
    signature: bytes
    chain: bytes
    verifier: Any = None  # the certificate's key, once it is checked

    @classmethod
    def signed(cls, identity: Identity, agreement: Agreement, cipher_key: bytes, mask_key: bytes) -> Advert:
        content = agreement.digest("keys", identity.name, to_text(cipher_key), to_text(mask_key))
        return cls(identity.name, cipher_key, mask_key, identity.sign(content), identity.chain)

    def to_fields(self) -> dict[str, str]:
        names = ("cipher_key", "mask_key", "signature", "chain")
        return {"name": self.name, **{name: to_text(getattr(self, name)) for name in names}}

    @classmethod
    def checked(cls, fields: Any, name: str, agreement: Agreement, verdict: Verdict) -> Advert:
        """Refuses what the owner of a good certificate for this name has not signed for this sum."""
        names = ("cipher_key", "mask_key", "signature", "chain")
        given = table(fields, ("name", *names))
        if given.get("name") != name or len(given) != len(names) + 1:
            raise Refused(f"{name}: keys that are not its own")
        advert = cls(name, **{each: to_bytes(given[each]) for each in names})
        if {len(advert.cipher_key), len(advert.mask_key)} != {_KEY_BYTES}:
            raise Refused(f"{name}: keys of another length")
        verifier = public_key(name, advert.chain, verdict)
        content = agreement.digest("keys", name, to_text(advert.cipher_key), to_text(advert.mask_key))
        check_signature(name, verifier, advert.signature, content)
        return dataclasses.replace(advert, verifier=verifier)


@dataclasses.dataclass(frozen=True)
class Dealt:
    """Step 2: a member's shares, each encrypted to who gets it, and what each of them must hash to."""

    shares: dict[str, bytes]
    commitments: dict[str, tuple[bytes, bytes]]  # of the share of its mask key, and of that of its own mask's seed
    seed_commitment: bytes  # of the seed itself; the mask key has its public key

    def to_fields(self) -> dict[str, Any]:
        return {
            "shares": {name: to_text(share) for name, share in self.shares.items()},
            "commitments": {name: [to_text(one) for one in pair] for name, pair in self.commitments.items()},
            "seed_commitment": to_text(self.seed_commitment),
        }

    @classmethod
    def checked(cls, fields: Any, agreement: Agreement) -> Dealt:
        given = table(fields, ("shares", "commitments", "seed_commitment"))
        members = agreement.members
        shares, pairs = table(given.get("shares"), members), table(given.get("commitments"), members)
        if set(shares) != set(members) or set(pairs) != set(members):
            raise Refused("not a share for every member")
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs.values()):
            raise Refused("commitments that are none")
        return cls(
            {name: to_bytes(share) for name, share in shares.items()},
            {name: (to_bytes(pair[0]), to_bytes(pair[1])) for name, pair in pairs.items()},
            to_bytes(given.get("seed_commitment")),
        )


def commitment(agreement: Agreement, of: str, kind: str, content: bytes) -> bytes:
    return hashlib.sha256(agreement.digest("commitment", of, kind) + content).digest()


def survivors_content(agreement: Agreement, survivors: Iterable[str]) -> bytes:
    """What is signed in step 4."""
    return agreement.digest("survivors", list(survivors))
