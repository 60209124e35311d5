"""What all sites of a sum must have done alike: a digest of the computation and of what is broadcast.

A coordinator that has one site train and the others answer zeros would learn that site's numbers from the sum. So
members of a secure sum agree on this digest, and a site masks an answer only if it is what came of that work. Not in it
is what is each client's own: its data, which is a pipeline over its files, and single numbers, such as its place.

Messages of TFF's wire format; neither TFF nor TensorFlow is imported.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

Part = tuple[int, str]  # its place among the arguments, SHA-256


def is_own(value: Any) -> bool:
    """Of an argument (a `Value`): whether it is a client's own."""
    kind = value.WhichOneof("value")
    if kind == "struct":
        return any(_has_sequence(element.value) for element in value.struct.element)
    return kind == "sequence" or (kind == "array" and not value.array.shape.dim)


def _has_sequence(value: Any) -> bool:
    if value.WhichOneof("value") == "struct":
        return any(_has_sequence(element.value) for element in value.struct.element)
    return value.WhichOneof("value") == "sequence"


def hashed(message: Any) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()


def parts(argument: Any) -> list[Part]:
    """Of a struct of arguments, those that all sites have."""
    elements = enumerate(element.value for element in argument.struct.element)
    return [(index, hashed(value)) for index, value in elements if not is_own(value)]


def digest(computation: str, shared: Iterable[Part], form: Mapping[str, Any]) -> str:
    """`computation` is its `hashed`, `form` what becomes of the answer."""
    content = json.dumps([computation, sorted(list(part) for part in shared), dict(form)], sort_keys=True)
    return hashlib.sha256(b"tffapps work\0" + content.encode()).hexdigest()
