"""Secret sharing: any `threshold` shares give the secret, fewer do not."""

import itertools

import pytest

from tffapps.secure_sums import shamir

SECRET = bytes(range(32))


def test_any_three_of_five():
    shares = dict(enumerate(shamir.split(SECRET, 3, 5), 1))
    for places in itertools.combinations(shares, 3):
        assert shamir.recover({place: shares[place] for place in places}) == SECRET
    with pytest.raises(ValueError, match="do not belong together"):  # but for one in 2^265
        shamir.recover({1: shares[1], 2: shares[2]})


def test_a_line_by_hand(monkeypatch):
    """5 + 3x at 1 and 2 is 8 and 11."""
    monkeypatch.setattr(shamir.secrets, "randbelow", lambda _: 3)
    shares = shamir.split((5).to_bytes(32, "big"), 2, 2)
    assert [int.from_bytes(share, "big") for share in shares] == [8, 11]
    assert int.from_bytes(shamir.recover({1: shares[0], 2: shares[1]}), "big") == 5


def test_what_cannot_be_split():
    for secret, threshold, count in ((b"short", 2, 3), (SECRET, 4, 3), (SECRET, 0, 3)):
        with pytest.raises(ValueError, match="a secret of 32 bytes"):
            shamir.split(secret, threshold, count)
