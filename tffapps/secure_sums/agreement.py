"""What all members of one secure sum must agree on; its digest is signed and enters every derivation."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import Any

LEAST_MEMBERS = 3  # of two, each knows the other's numbers once it knows the sum
MOST_MEMBERS = 2**12
_MOST_VALUES = 2**31
_SESSION = re.compile(r"[0-9a-f]{32}")
_WORK = re.compile(r"([0-9a-f]{64})?")


class Refused(Exception):
    """A message that a member or the coordinator does not go along with; says who sent what, in one line."""


def threshold(members: int) -> int:
    return max(LEAST_MEMBERS, members // 2 + 1)


@dataclasses.dataclass(frozen=True)
class Agreement:
    session: str  # 32 hexadecimal digits, drawn by the coordinator when it starts
    number: int  # of the sum in this session; it only rises
    members: tuple[str, ...]  # in order
    size: int  # how many numbers each sends
    bits: int  # of each: from 0 to 2^bits - 1
    work: str = ""  # what they are the result of, the same for all members: a SHA-256, if they care

    def __post_init__(self) -> None:
        whole = all(isinstance(value, int) for value in (self.number, self.size, self.bits))
        named = all(isinstance(name, str) and 0 < len(name) < 200 for name in self.members)
        if not (whole and named and isinstance(self.session, str) and _SESSION.fullmatch(self.session)):
            raise Refused("an agreement on a secure sum that is not one")
        if not isinstance(self.work, str) or not _WORK.fullmatch(self.work):
            raise Refused("an agreement on a secure sum of something that has no name")
        if list(self.members) != sorted(set(self.members)):
            raise Refused("an agreement on a secure sum whose members are not in order")
        if not LEAST_MEMBERS <= len(self.members) <= MOST_MEMBERS:
            raise Refused(
                f"a secure sum of {len(self.members)} members: it takes at least {LEAST_MEMBERS}, since each of two"
                " knows the other's numbers once it knows the sum"
            )
        room = 64 - len(self.members).bit_length()
        if not (0 < self.number < 2**63 and 0 < self.size <= _MOST_VALUES and 0 < self.bits <= room):
            raise Refused(f"a secure sum of {self.size} numbers of {self.bits} bits has no room")

    @property
    def threshold(self) -> int:
        """Members that must be left at the end: more than half, and enough for a sum that tells on nobody."""
        return threshold(len(self.members))

    def digest(self, *more: object) -> bytes:
        """Of the agreement and what is said under it."""
        content = json.dumps([dataclasses.asdict(self), *more], sort_keys=True)
        return hashlib.sha256(b"tffapps secure sum\0" + content.encode()).digest()

    def to_fields(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "members": list(self.members)}

    @classmethod
    def from_fields(cls, fields: Any) -> Agreement:
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(fields, dict) or sorted(fields) != sorted(names) or not isinstance(fields["members"], list):
            raise Refused("an agreement on a secure sum that is not one")
        return cls(**{**fields, "members": tuple(fields["members"])})
