"""The two kinds of failure a command line tells its user about in one line: those of `preprocessing` too."""

from preprocessing.errors import Rejected, RunStopped, UserError

__all__ = ["Diverged", "Rejected", "RunStopped", "UserError"]


class Diverged(UserError):
    """Of a model whose predictions are no numbers any more."""
