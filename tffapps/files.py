"""Files that are whole or not there, and their names."""

import os
import urllib.parse

from preprocessing.whole_files import replacing

__all__ = ["as_name", "from_name", "replacing", "short"]


def as_name(text: str) -> str:
    """Any text, such as a client's name, as the name of one file or folder."""
    return urllib.parse.quote(text, safe="").replace(".", "%2E")


def from_name(name: str) -> str:
    """What `as_name` was given."""
    return urllib.parse.unquote(name)


def short(path: str) -> str:
    """As the user would name it: relative where it lies below the working folder."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
