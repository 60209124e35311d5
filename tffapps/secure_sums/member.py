"""A site's part in one secure sum. It trusts nobody: every step says what it refuses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tffapps.secure_sums import masks, shamir
from tffapps.secure_sums.agreement import Agreement, Refused
from tffapps.secure_sums.identity import Identity, Verdict, check_signature
from tffapps.secure_sums.spoken import Advert, Dealt, commitment, survivors_content, table, to_bytes, to_text

_NONCE = bytes(12)  # every key is used once
_SHARE = 66  # bytes
KEY, SEED = "mask key", "own mask"


class Member:
    """Steps in order, each once; a second time, or another step than the next one, is refused."""

    def __init__(self, identity: Identity, agreement: Agreement, verdict: Verdict) -> None:
        if identity.name not in agreement.members:
            raise Refused(f"a secure sum without {identity.name}")
        self.agreement = agreement
        self._identity, self._verdict = identity, verdict
        self._cipher_key, self._mask_key = X25519PrivateKey.generate(), X25519PrivateKey.generate()
        self._seed = os.urandom(shamir.SECRET_BYTES)
        self._next = "advertise"
        self._adverts: dict[str, Advert] = {}
        self._commitments: dict[str, tuple[bytes, bytes]] = {}
        self._shares: dict[str, tuple[bytes, bytes]] = {}  # of each member, mine
        self._survivors: tuple[str, ...] = ()

    def advertise(self) -> dict[str, Any]:
        self._step("advertise", "deal")
        keys = (key.public_key().public_bytes_raw() for key in (self._cipher_key, self._mask_key))
        return Advert.signed(self._identity, self.agreement, *keys).to_fields()

    def deal(self, adverts: Mapping[str, Any]) -> dict[str, Any]:
        """Takes all members' keys; gives shares of its secrets."""
        self._step("deal", "mask")
        given = table(adverts, self.agreement.members)
        if set(given) != set(self.agreement.members):
            raise Refused("not the keys of every member")
        for name, fields in given.items():
            self._adverts[name] = Advert.checked(fields, name, self.agreement, self._verdict)
        public = [key for each in self._adverts.values() for key in (each.cipher_key, each.mask_key)]
        if len(set(public)) < len(public):
            raise Refused("the same key twice")
        if self._adverts[self._me].mask_key != self._mask_key.public_key().public_bytes_raw():
            raise Refused(f"{self._me}: keys that are not its own")
        count, threshold = len(self.agreement.members), self.agreement.threshold
        secrets = self._mask_key.private_bytes_raw(), self._seed
        pairs = list(zip(*(shamir.split(secret, threshold, count) for secret in secrets)))
        shares, commitments = {}, {}
        for name, pair in zip(self.agreement.members, pairs):
            shares[name] = self._cipher(self._me, name).encrypt(_NONCE, b"".join(pair), None)
            commitments[name] = self._committed(self._me, pair)
        sealed = commitment(self.agreement, self._me, SEED, self._seed)
        return Dealt(shares, commitments, sealed).to_fields()

    def mask(self, dealt: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
        """Takes what every member has dealt to this one, as {name: [share, its two commitments]}; gives its numbers,
        masked. `values` are from 0 to 2^bits - 1."""
        self._step("mask", "confirm")
        given = table(dealt, self.agreement.members)
        if set(given) != set(self.agreement.members):
            raise Refused("not the shares of every member")
        for name, parts in given.items():
            self._shares[name] = self._opened(name, parts)
        if values.shape != (self.agreement.size,) or values.dtype != np.int64:
            raise Refused(f"{self.agreement.size} whole numbers were agreed on")
        if values.size and (values.min() < 0 or values.max() >= 1 << self.agreement.bits):
            raise Refused(f"numbers beyond the {self.agreement.bits} bits that were agreed on")
        total = values.view(np.uint64) + masks.own_mask(self._seed, self._me, self.agreement)
        for name, advert in self._adverts.items():
            if name != self._me:
                total += masks.pair_mask(self._mask_key, self._me, advert.mask_key, name, self.agreement)
        return total.view(np.int64)

    def confirm(self, survivors: Sequence[Any]) -> str:
        """Signs who has sent numbers: one list, and only if this member is in it."""
        self._step("confirm", "unmask")
        listed = tuple(survivors)
        if list(listed) != [name for name in self.agreement.members if name in listed]:
            raise Refused("a list of those who sent numbers that names others than members, or not in order")
        if self._me not in listed:
            raise Refused(f"{self._me} is called dropped out, and is here")
        if len(listed) < self.agreement.threshold:
            raise Refused(f"only {len(listed)} members sent numbers, {self.agreement.threshold} are needed")
        self._survivors = listed
        return to_text(self._identity.sign(survivors_content(self.agreement, listed)))

    def unmask(self, signatures: Mapping[str, Any]) -> dict[str, dict[str, str]]:
        """Its shares of every member's secret: one of the two, as the list says that enough members have signed."""
        self._step("unmask", "nothing")
        given = table(signatures, self._survivors)
        content = survivors_content(self.agreement, self._survivors)
        for name, signature in given.items():
            check_signature(name, self._adverts[name].verifier, to_bytes(signature), content)
        if len(given) < self.agreement.threshold:
            raise Refused(f"only {len(given)} members say who sent numbers, {self.agreement.threshold} are needed")
        dropped = [name for name in self.agreement.members if name not in self._survivors]
        return {
            KEY: {name: to_text(self._shares[name][0]) for name in dropped},
            SEED: {name: to_text(self._shares[name][1]) for name in self._survivors},
        }

    @property
    def survivors(self) -> tuple[str, ...]:
        """Whose numbers are in the sum, once that is confirmed."""
        return self._survivors

    @property
    def _me(self) -> str:
        return self._identity.name

    def _step(self, name: str, following: str) -> None:
        if self._next != name:
            raise Refused(f"asked to {name} in secure sum {self.agreement.number}, where {self._next} comes next")
        # Also after a refusal: nothing is tried twice with the same keys.
        self._next = following

    def _cipher(self, sender: str, receiver: str) -> ChaCha20Poly1305:
        other = self._adverts[receiver if sender == self._me else sender].cipher_key
        purpose = f"share {sender!r} {receiver!r}"
        return ChaCha20Poly1305(masks.agreed_key(self._cipher_key, other, self.agreement, purpose))

    def _opened(self, sender: str, parts: Any) -> tuple[bytes, bytes]:
        if not isinstance(parts, list) or len(parts) != 3:
            raise Refused(f"{sender}: no share")
        sealed, *commitments = (to_bytes(part) for part in parts)
        try:
            content = self._cipher(sender, self._me).decrypt(_NONCE, sealed, None)
        except InvalidTag:
            raise Refused(f"{sender}: a share that was changed on its way") from None
        pair = content[:_SHARE], content[_SHARE:]
        if len(content) != 2 * _SHARE or self._committed(sender, pair) != tuple(commitments):
            raise Refused(f"{sender}: a share other than it has committed itself to")
        return pair

    def _committed(self, owner: str, pair: Sequence[bytes]) -> tuple[bytes, bytes]:
        key, seed = (commitment(self.agreement, owner, kind, share) for kind, share in zip((KEY, SEED), pair))
        return key, seed
