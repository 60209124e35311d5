"""The two kinds of failure a command line tells its user about in one line."""


class UserError(Exception):
    """Something the user gave is wrong: the message names it and the way out. Exit status 2."""


class RunStopped(Exception):
    """A run cannot go on but can be continued later by the same command. Exit status 3."""
