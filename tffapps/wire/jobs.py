"""How a coordinator asks a site to prepare something from its own images, beside the rounds.

A round is TensorFlow and runs in the worker; separating stains or training a generator is not. So a site answers two
methods itself, on the connection that rounds use:

    ASK     an id, a word for this asking, and a request: it is done when its turn comes. The same without the request
            only looks: the answer, a message, or nothing yet. A failure repeats the word of its asking.
    TELL    a line for the site's log
    ABOUT   what the computations that follow are for: the application, the method, the run; the site may refuse it
    HEAD    how many lines the site's log of requests has, and the hash of the last

What was made are files `made/<id>/…` in the worker's folder, which later pipelines read by these paths. Jobs are named
after their system: `fedsda/stains`. Nothing but the jobs of a site's own systems is done, on the site's own rows, and
what is made stays at the site.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

ASK, TELL = "/tffapps.Site/Ask", "/tffapps.Site/Tell"
ABOUT, HEAD = "/tffapps.Site/About", "/tffapps.Site/Head"
MADE = "made"
JOB = "job"  # the field of a request that names it
ERROR, ASKING = "error", "asking"  # fields of an answer: what went wrong, in one line, and in which asking
_LONGEST_ABOUT = 1000
_HEAD = re.compile(rb"([0-9a-f]{20}) ([0-9a-z]{1,40})\n")


def to_ask(identity: str, asking: str, request: bytes = b"") -> bytes:
    return f"{identity} {asking}\n".encode() + request


def asked(content: bytes) -> tuple[str, str, bytes]:
    """The id, the word and the request, which may be empty; ValueError if it is none of this."""
    head = _HEAD.match(content)
    if head is None:
        raise ValueError("a request without an id")
    return head[1].decode(), head[2].decode(), content[head.end() :]


def made_path(identity: str, number: int) -> str:
    """Where the worker finds the file with this number that a job made."""
    return f"{MADE}/{identity}/{file_name(number)}"


def file_name(number: int) -> str:
    return f"{number:06d}"


class About(NamedTuple):
    """What computations are for, in the coordinator's words."""

    application: str
    method: str
    run: str

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> About:
        """ValueError if it is none."""
        try:
            fields = json.loads(content) if len(content) <= _LONGEST_ABOUT else None
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or set(fields) != set(cls._fields):
            raise ValueError("what the work is for cannot be read")
        if not all(isinstance(text, str) and text.isprintable() for text in fields.values()):
            raise ValueError("what the work is for cannot be read")
        return cls(**fields)
