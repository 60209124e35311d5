"""Pseudonyms of images and subjects: the same wherever the same files are, and no name in them.

An image is the beginning of the SHA-256 of its file (of the file that it was made of, for images that a system makes);
a subject is the first of its images. Images at sites are called after what the site has published of them: a number.
"""

import collections
import os
from collections.abc import Sequence

import pandas as pd

from tffapps.data import digests, features
from tffapps.home import cache_folder

_DIGITS = 16


def identified(rows: pd.DataFrame) -> pd.DataFrame:
    """image, subject and client of rows with the columns path, client and perhaps source, file and subject."""
    names = _images(rows)
    subjects = [str(subject) for subject in rows["subject"]] if "subject" in rows.columns else [""] * len(rows)
    first: dict[str, str] = {}
    for name, subject in zip(names, subjects):
        if subject:
            first[subject] = min(name, first.get(subject, name))
    return pd.DataFrame(
        {
            "image": names,
            "subject": [first[subject] if subject else name for name, subject in zip(names, subjects)],
            "client": [str(client) for client in rows["client"]],
        }
    )


def _images(rows: pd.DataFrame) -> list[str]:
    paths = [str(path) for path in rows["path"]]
    for column in ("source", "file"):  # what an image was made of, and the user's file that this was converted from
        if column in rows.columns:
            paths = [str(origin) if origin else path for origin, path in zip(rows[column].fillna(""), paths)]
    if not all(os.path.isabs(path) or os.path.exists(path) for path in paths):  # they mean something at a site alone
        return _numbered([f"{client}:{path}" for client, path in zip(rows["client"], paths)])
    hashes = digests.sha256_of(paths, cache_folder() / "features" / features.MEMO)
    return _numbered([hashes[path][:_DIGITS] for path in paths])


def _numbered(names: Sequence[str]) -> list[str]:
    """The second file of the same content is another image."""
    seen: collections.Counter[str] = collections.Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result
