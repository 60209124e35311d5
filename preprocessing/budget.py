"""How large an image file may be. Asked of its header, before any of it is decoded.

A few kilobytes can claim to be an image of any size, and a decoder takes the memory for it before it finds out. Two
environment variables say how much is allowed:

    TFFAPPS_MAX_PIXELS    of one image, width × height (default 67108864, as 8192 × 8192)
    TFFAPPS_MAX_BYTES     of one file, and of what a volume unpacks to (default 1073741824, 1 GiB)
"""

from __future__ import annotations

import os

from preprocessing.errors import Rejected, UserError

PIXELS, BYTES = "TFFAPPS_MAX_PIXELS", "TFFAPPS_MAX_BYTES"
_DEFAULTS = {PIXELS: 2**26, BYTES: 2**30}


def limit(name: str) -> int:
    """The value of one of the two variables, or its default."""
    text = os.environ.get(name, "").strip()
    if not text:
        return _DEFAULTS[name]
    if not text.isascii() or not text.isdigit() or not 0 < len(text) < 19 or not int(text):
        raise UserError(f"{name}={text[:40]}: must be a whole number above 0; correct it or leave it out")
    return int(text)


def check_pixels(width: int, height: int) -> None:
    """Raises `Rejected` for an image of too many pixels."""
    most = limit(PIXELS)
    if width * height > most:
        raise Rejected(f"too large: {width} × {height} pixels, {most} allowed; make it smaller or raise {PIXELS}")


def check_bytes(count: int, what: str = "bytes") -> None:
    """Raises `Rejected` for a file, or what is in it, of too many bytes."""
    most = limit(BYTES)
    if count > most:
        raise Rejected(f"too large: {count} {what}, {most} allowed; make it smaller or raise {BYTES}")
