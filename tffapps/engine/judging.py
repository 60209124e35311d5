"""Whether to believe what sites answered in a round, asked before any of it is used.

An engine cannot tell what numbers mean; who plays a round can, and installs a judge for it:

    with judged(judge):
        round_.next(...)

`raw` asks for the plain results of clients' work, such as an update and its weight, in place of what an aggregator has
clients make of them: these steps are done here then, on what was found to be in order.
"""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

# One client's: name of a field of what its work results in -> value; "" for what an aggregator has made of several.
Answer = list[tuple[str, Any]]


class Judge(Protocol):
    raw: bool

    def __call__(self, answers: Mapping[int, Answer]) -> dict[int, str]:
        """By the places of clients: of all answers of a pass, what is wrong with some of them."""
        ...


_JUDGE: contextvars.ContextVar[Judge | None] = contextvars.ContextVar("judge", default=None)


@contextlib.contextmanager
def judged(judge: Judge) -> Iterator[None]:
    """For the computations that are called in the block; engines of this machine ask nobody."""
    token = _JUDGE.set(judge)
    try:
        yield
    finally:
        _JUDGE.reset(token)


def judge_in_office() -> Judge | None:
    return _JUDGE.get()
