"""Masks modulo 2^64, and the keys they come from: X25519, HKDF with the sum's digest, ChaCha20's key stream."""

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tffapps.secure_sums.agreement import Agreement, Refused

_NONCE = bytes(16)  # every key is used once
_PIECE = 2**20  # numbers at a time


def agreed_key(own: X25519PrivateKey, other: bytes, agreement: Agreement, purpose: str) -> bytes:
    """32 bytes that the owners of both keys can work out, for one purpose in one sum."""
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise Refused("a public key that is none") from None
    return _derived(shared, agreement, purpose)


def pair_mask(own: X25519PrivateKey, me: str, other_key: bytes, other: str, agreement: Agreement) -> np.ndarray:
    """What `me` adds for `other`; the other adds its negative."""
    first, second = sorted((me, other))
    mask = _stream(agreed_key(own, other_key, agreement, f"mask {first!r} {second!r}"), agreement.size)
    return mask if me == first else np.negative(mask)


def own_mask(seed: bytes, me: str, agreement: Agreement) -> np.ndarray:
    return _stream(_derived(seed, agreement, f"own mask {me!r}"), agreement.size)


def _derived(secret: bytes, agreement: Agreement, purpose: str) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt=agreement.digest(), info=purpose.encode()).derive(secret)


def _stream(key: bytes, size: int) -> np.ndarray:
    """`size` numbers, uniform over 2^64."""
    cipher = Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor()
    stream = np.empty(size, "<u8")
    nothing = bytes(8 * min(size, _PIECE))
    for start in range(0, size, _PIECE):
        count = min(_PIECE, size - start)
        stream[start : start + count] = np.frombuffer(cipher.update(nothing[: 8 * count]), "<u8")
    return stream
