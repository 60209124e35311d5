"""What a site may publish of itself, checked by who reads it: the coordinator makes tables of what it says."""

import json
from collections.abc import Callable
from typing import Any

SPLITS = ("train", "val", "test")
MOST_BYTES = 2**24
MOST_IMAGES = 1_000_000  # of one site
_MOST_CLASSES = 10_000
_LETTERS = 200  # of a name
_FORMATS = 20


def read(content: bytes) -> dict[str, Any]:
    """A site's description; ValueError, in a few words, for what is none."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"{len(content)} bytes")
    try:
        description = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(description, dict):
        raise ValueError("no table of fields")
    for field, is_right in _FIELDS.items():
        if not is_right(description.get(field)):
            raise ValueError(f"the field {field!r}")
    _check_counts(description)
    return description


def _check_counts(description: dict[str, Any]) -> None:
    classes, images = description["classes"], description["images"]
    if set(images) != set(SPLITS) or any(set(counts) != set(classes) for counts in images.values()):
        raise ValueError("'images', which must count every class of 'classes' in every split")
    total = sum(count for counts in images.values() for count in counts.values())
    if total > MOST_IMAGES:
        raise ValueError(f"{total} images, of which there can be {MOST_IMAGES} at most")
    if description["masks"] > total or sum(description["sizes"].values()) > total:
        raise ValueError("more masks or sizes than images")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LETTERS and value.isprintable()


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 10 * MOST_IMAGES  # a bool is none


def _counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_name, value)) and all(map(_is_count, value.values()))


def _names(value: Any, most: int) -> bool:
    return (
        isinstance(value, list) and len(value) <= most and all(map(_is_name, value)) and len(set(value)) == len(value)
    )


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "name": _is_name,
    "version": _is_name,
    "protocol": _is_count,
    "frameworks": lambda value: isinstance(value, dict) and all(map(_is_name, [*value, *value.values()])),
    "classes": lambda value: _names(value, _MOST_CLASSES),
    "images": lambda value: isinstance(value, dict) and all(map(_counts, value.values())),
    "masks": _is_count,
    "sizes": _counts,
    "formats": lambda value: _names(value, _FORMATS),
    "left_out": _is_count,
    "stand_in": lambda value: isinstance(value, bool),
    "subjects": lambda value: isinstance(value, bool),
    "fingerprint": _is_name,
}
