"""What the fuzz tests share: bytes and texts that are nearly right, and what counts as a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

ODD = [
    "", " ", "\t", "\0", "\n", "a\nb", "\r", '"', "'", ",", ";", "%s", "{}", "..", "/", "~", "-", "--", "\x1b[31m",
    "\u2028", "\ufeff", "é", "e\u0301", "½", "١", "🖼", "NA", "nan", "None", "true", "0", "-1", "1e9", "7" * 5000,
    "a" * 300, "a/" * 3000,
]  # fmt: skip


def bounded(examples: int) -> Callable:
    """The same examples every time, and no more than these."""
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


def damaged(contents: bytes) -> st.SearchStrategy[bytes]:
    """Some bytes flipped, cut out, put in, or the end cut off."""
    at = st.integers(0, max(0, len(contents) - 1))
    few = st.integers(0, 40)
    flip = st.builds(lambda place, bit: ("flip", place, bit), at, st.integers(0, 7))
    cut = st.builds(lambda place, count: ("cut", place, count), at, few)
    put = st.builds(lambda place, more: ("put", place, more), at, st.binary(max_size=40))
    end = st.builds(lambda place: ("end", place, None), at)
    fill = st.builds(lambda place, value: ("fill", place, value), at, st.sampled_from([0, 255]))
    return st.lists(st.one_of(flip, cut, put, end, fill), min_size=1, max_size=4).map(
        lambda all_: _changed(contents, all_)
    )


def _changed(contents: bytes, changes: Sequence[tuple]) -> bytes:
    result = bytearray(contents)
    for kind, place, value in changes:
        if kind == "flip" and place < len(result):
            result[place] ^= 1 << value
        elif kind == "cut":
            del result[place : place + value]
        elif kind == "put":
            result[place:place] = value
        elif kind == "end":
            del result[place:]
        elif kind == "fill":
            result[place : place + 8] = bytes([value] * len(result[place : place + 8]))
    return bytes(result)


def check_refusal(error: Exception) -> None:
    """One line that can be shown on any terminal."""
    text = str(error)
    assert text and len(text.splitlines()) == 1 and text.isprintable(), repr(text)
