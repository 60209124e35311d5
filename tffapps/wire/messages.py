"""What coordinator and sites send each other beside rounds: named fields and arrays, in bytes without code.

An `.npz` and one byte more: on its way a text loses the zeros it ends with, as such files do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from preprocessing.npz import DAMAGE, plain_arrays
from tffapps.errors import UserError

_FIELDS = "fields"
_END = b"\n"
MOST_BYTES = 2**30  # a generator of full width has 220 MB
_MOST_FIELDS = 2**23


@contextlib.contextmanager
def understood(job: str) -> Iterator[None]:
    """Around what is made of sites' answers to a request: a site may answer anything."""
    try:
        yield
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(f"--engine: a site's answer to {job} cannot be understood ({error!r:.80})") from error


@dataclasses.dataclass(frozen=True)
class Message:
    fields: dict[str, Any]  # that JSON can hold
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def to_bytes(self) -> bytes:
        content = io.BytesIO()
        fields = np.frombuffer(json.dumps(self.fields).encode(), np.uint8)
        np.savez(content, **{_FIELDS: fields, **self.arrays})
        return content.getvalue() + _END

    @classmethod
    def from_bytes(cls, content: bytes, sender: str) -> Message:
        """A UserError that names the sender if it is none."""
        try:
            if len(content) > MOST_BYTES:
                raise ValueError(f"{len(content)} bytes")
            arrays = plain_arrays(content[: -len(_END)])
            if arrays[_FIELDS].nbytes > _MOST_FIELDS:
                raise ValueError("too many fields")
            fields = json.loads(arrays.pop(_FIELDS).tobytes())
            if not isinstance(fields, dict):
                raise ValueError("not a table of fields")
        except (*DAMAGE, RecursionError, AttributeError, TypeError) as error:
            raise UserError(f"{sender} sent something that cannot be read ({type(error).__name__})") from None
        return cls(fields, arrays)

    @property
    def identity(self) -> str:
        """The same for messages of the same content."""
        digest = hashlib.sha256(json.dumps(self.fields, sort_keys=True).encode())
        for name, array in sorted(self.arrays.items()):
            digest.update(f"\0{name} {array.dtype.str} {array.shape}\0".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:20]
