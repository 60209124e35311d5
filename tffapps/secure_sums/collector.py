"""The coordinator's part in one secure sum: it carries messages, finds who cheats, and takes the masks off the sum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tffapps.secure_sums import masks, shamir
from tffapps.secure_sums.agreement import Agreement, Refused
from tffapps.secure_sums.identity import Verdict, check_signature
from tffapps.secure_sums.member import KEY, SEED
from tffapps.secure_sums.spoken import Advert, Dealt, commitment, survivors_content, table, to_bytes, to_text


class CheatedBy(Refused):
    """A member said something that shows it does not follow the protocol."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class Collector:
    def __init__(self, agreement: Agreement, verdict: Verdict) -> None:
        self.agreement = agreement
        self._verdict = verdict
        self._adverts: dict[str, Advert] = {}
        self._dealt: dict[str, Dealt] = {}
        self._survivors: tuple[str, ...] = ()

    def adverts(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Of what every member advertised, what every member is told."""
        for name in self.agreement.members:
            with _named(name):
                self._adverts[name] = Advert.checked(said[name], name, self.agreement, self._verdict)
        return {name: advert.to_fields() for name, advert in self._adverts.items()}

    def dealt(self, said: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
        """Of what every member dealt, what each is told."""
        for name in self.agreement.members:
            with _named(name):
                self._dealt[name] = Dealt.checked(said[name], self.agreement)
        return {
            receiver: {
                sender: [to_text(dealt.shares[receiver]), *(to_text(one) for one in dealt.commitments[receiver])]
                for sender, dealt in self._dealt.items()
            }
            for receiver in self.agreement.members
        }

    def survivors(self, sent: Sequence[str]) -> list[str]:
        """What all who sent numbers are to sign."""
        self._survivors = tuple(name for name in self.agreement.members if name in sent)
        if len(self._survivors) < self.agreement.threshold:
            gone = ", ".join(name for name in self.agreement.members if name not in sent)
            raise Refused(
                f"a secure sum without {gone}: {len(self._survivors)} members are left, and it takes"
                f" {self.agreement.threshold}"
            )
        return list(self._survivors)

    def confirmed(self, said: Mapping[str, Any]) -> dict[str, str]:
        """The signatures, of those who gave one."""
        content, good = survivors_content(self.agreement, self._survivors), {}
        for name, signature in table(said, self._survivors).items():
            with _named(name):
                check_signature(name, self._adverts[name].verifier, to_bytes(signature), content)
            good[name] = signature
        return good

    def correction(self, said: Mapping[str, Any]) -> np.ndarray:
        """What is to be added to the survivors' sum, modulo 2^64, so that it is that of their numbers.

        `said` are shares, of at least `threshold` members. A wrong one is found by its commitment and named.
        """
        shares: dict[tuple[str, str], dict[int, bytes]] = {}
        gone = [name for name in self.agreement.members if name not in self._survivors]
        for giver, kinds in table(said, self._survivors).items():
            with _named(giver):
                given = table(kinds, (KEY, SEED))
                for place, (kind, names) in enumerate(((KEY, gone), (SEED, self._survivors))):
                    if set(table(given.get(kind), names)) != set(names):
                        raise Refused("not the shares that were asked for")
                    for owner, text in given[kind].items():
                        share = to_bytes(text)
                        if (
                            commitment(self.agreement, owner, kind, share)
                            != self._dealt[owner].commitments[giver][place]
                        ):
                            raise Refused(f"a wrong share of {owner}'s {kind}")
                        shares.setdefault((owner, kind), {})[self._place(giver)] = share
        total = np.zeros(self.agreement.size, np.uint64)
        for name in self._survivors:
            total -= masks.own_mask(self._seed(name, shares[name, SEED]), name, self.agreement)
        for name in gone:
            key = self._key(name, shares[name, KEY])
            for other in self._survivors:  # what the other added for it is the negative of what it would have added
                total += masks.pair_mask(key, name, self._adverts[other].mask_key, other, self.agreement)
        return total.view(np.int64)

    def _place(self, name: str) -> int:
        return self.agreement.members.index(name) + 1

    def _seed(self, name: str, shares: dict[int, bytes]) -> bytes:
        seed = self._recovered(name, shares)
        if commitment(self.agreement, name, SEED, seed) != self._dealt[name].seed_commitment:
            raise CheatedBy(name, "dealt shares of something else than its own mask")
        return seed

    def _key(self, name: str, shares: dict[int, bytes]) -> X25519PrivateKey:
        key = X25519PrivateKey.from_private_bytes(self._recovered(name, shares))
        if key.public_key().public_bytes_raw() != self._adverts[name].mask_key:
            raise CheatedBy(name, "dealt shares of something else than its mask key")
        return key

    def _recovered(self, name: str, shares: dict[int, bytes]) -> bytes:
        if len(shares) < self.agreement.threshold:
            raise Refused(f"{len(shares)} shares of {name}'s secret, {self.agreement.threshold} are needed")
        try:
            return shamir.recover(dict(sorted(shares.items())[: self.agreement.threshold]))
        except ValueError:
            raise CheatedBy(name, "dealt shares that do not belong together") from None


class _named:
    """Around what one member said: what is refused of it is that member's doing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, (Refused, KeyError)):
            why = "sent nothing" if isinstance(error, KeyError) else str(error).removeprefix(f"{self._name}: ")
            raise CheatedBy(self._name, why) from None
