"""Shamir's secret sharing of 32 bytes: any `threshold` shares give the secret, fewer tell nothing."""

import secrets
from collections.abc import Mapping

SECRET_BYTES = 32
_PRIME = 2**521 - 1
_SHARE_BYTES = 66


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """One share for each of the places 1 to `count`."""
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= count:
        raise ValueError("a secret of 32 bytes, and no more shares needed than there are")
    line = [int.from_bytes(secret, "big"), *(secrets.randbelow(_PRIME) for _ in range(threshold - 1))]
    return [_at(line, place).to_bytes(_SHARE_BYTES, "big") for place in range(1, count + 1)]


def recover(shares: Mapping[int, bytes]) -> bytes:
    """The secret of exactly `threshold` shares by their places; ValueError if they are none of one secret's."""
    points = {place: int.from_bytes(share, "big") for place, share in shares.items()}
    total = 0
    for place, value in points.items():
        above = below = 1
        for other in points:
            if other != place:
                above = above * other % _PRIME
                below = below * (other - place) % _PRIME
        total += value * above * pow(below, -1, _PRIME)
    secret = total % _PRIME
    if secret >= 1 << 8 * SECRET_BYTES:
        raise ValueError("shares that do not belong together")
    return secret.to_bytes(SECRET_BYTES, "big")


def _at(line: list[int], place: int) -> int:
    total = 0
    for factor in reversed(line):
        total = (total * place + factor) % _PRIME
    return total
