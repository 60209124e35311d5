"""Files that are whole or not there, and their names."""

import os
import urllib.parse

from preprocessing.whole_files import replacing

__all__ = ["as_name", "from_name", "original", "remember", "replacing", "short"]

_ORIGINALS: dict[str, str] = {}  # the user's file by the path of what was made of it


def as_name(text: str) -> str:
    """Any text, such as a client's name, as the name of one file or folder."""
    return urllib.parse.quote(text, safe="").replace(".", "%2E")


def from_name(name: str) -> str:
    """What `as_name` was given."""
    return urllib.parse.unquote(name)


def remember(made: str, original: str) -> None:
    """That a file is a conversion of the user's; of several equal ones the first is named."""
    _ORIGINALS.setdefault(made, original)


def original(path: str) -> str:
    """The user's file that this is a conversion of, or the path itself."""
    return _ORIGINALS.get(path, path)


def short(path: str) -> str:
    """As the user would name it: their own file where this is a conversion, relative if below the working folder."""
    path = original(path)
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
