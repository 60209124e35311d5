"""The kinds of failure a command tells its user about in one line, and the one for an image that cannot be used."""

from __future__ import annotations


class _OneLine(Exception):
    """Names and cells of tables come from outside: line ends and what steers a terminal are shown as escapes."""

    def __str__(self) -> str:
        text = super().__str__()
        return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class UserError(_OneLine):
    """Something the user gave is wrong: the message names it and the way out. Exit status 2."""


class RunStopped(_OneLine):
    """The work cannot go on but can be continued later by the same command. Exit status 3."""


class Rejected(Exception):
    """The image cannot be used. The text says why: "what is wrong: what was measured, and the limit"."""
