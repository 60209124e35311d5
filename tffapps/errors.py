"""The two kinds of failure a command line tells its user about in one line."""


class _OneLine(Exception):
    """Names and cells of tables come from outside: line ends and what steers a terminal are shown as escapes."""

    def __str__(self) -> str:
        text = super().__str__()
        return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class UserError(_OneLine):
    """Something the user gave is wrong: the message names it and the way out. Exit status 2."""


class RunStopped(_OneLine):
    """A run cannot go on but can be continued later by the same command. Exit status 3."""
