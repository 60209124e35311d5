"""Messages of a stranger: what would swell, or is not what it claims to be, is refused and its sender named."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from tffapps.errors import UserError
from tffapps.wire.messages import Message


def packed(compression: int, **members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as file:
        for name, member in members.items():
            file.writestr(f"{name}.npy", member)
    return content.getvalue() + b"\n"


def saved(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


FIELDS = saved(np.frombuffer(b"{}", np.uint8))


def test_what_was_sent_arrives():
    arrays = {
        "x": np.arange(6.0).reshape(2, 3),
        "f": np.asfortranarray(np.eye(2)),
        "n": np.zeros((0, 3)),
        "t": np.array("ä"),
    }
    arrived = Message.from_bytes(Message({"a": 1}, arrays).to_bytes(), "site a")
    assert arrived.fields == {"a": 1}
    for name, array in arrays.items():
        np.testing.assert_array_equal(arrived.arrays[name], array)
    arrived.arrays["x"][0] = 1  # may be worked with


@pytest.mark.parametrize(
    "content",
    [
        packed(zipfile.ZIP_DEFLATED, fields=FIELDS, x=saved(np.zeros(2**20))),  # would swell
        packed(zipfile.ZIP_STORED, fields=FIELDS, x=saved(np.zeros(3))[:-8]),
        packed(zipfile.ZIP_STORED, fields=FIELDS, x=saved(np.zeros(3)).replace(b"(3,)", b"(9,)")),
        packed(zipfile.ZIP_STORED, fields=FIELDS, x=saved(np.array([None]))),
        packed(zipfile.ZIP_STORED, x=saved(np.zeros(3))),
        packed(zipfile.ZIP_STORED, fields=saved(np.frombuffer(b"[" * 10**5, np.uint8))),
        packed(zipfile.ZIP_STORED, fields=saved(np.frombuffer(b"[]", np.uint8))),
        packed(zipfile.ZIP_STORED, fields=saved(np.zeros(2**24, np.uint8))),
    ],
    ids=["packed", "short", "claims more", "pickled", "no fields", "deep", "no table", "many fields"],
)
def test_what_is_none(content):
    with pytest.raises(UserError, match=r"^site a sent something that cannot be read \(\w+\)$"):
        Message.from_bytes(content, "site a")
