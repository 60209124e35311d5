"""What a system would find in a folder or a manifest, read by its own loader (`data.look`) before a run.

No engine is started. Divisions that a run draws from its seeds are tried, because they fail where there are too few
images, and near-duplicates are looked for. What takes longer is left to the run: knees are not looked for, stains not
measured, micrographs not cut into tiles, only counted.
"""

import collections
import pathlib
import tempfile
from collections.abc import Sequence

import pandas as pd

from tffapps.data import groups, header
from tffapps.data import manifest as manifests
from tffapps.data.artists import SPLITS as SPLITS_OF_ARTISTS
from tffapps.data.pool import Pool, subjects_in
from tffapps.errors import UserError
from tffapps.files import short
from tffapps.home import cache_folder

_SPLITS = tuple(dict.fromkeys((*manifests.SPLITS, *SPLITS_OF_ARTISTS)))
_SHOWN = 3  # files, sizes
_MOST = 20  # classes, rows of clients


def report(pool: Pool, *, alike: bool = False) -> str:
    """A few lines and a table: one row for each client, one column for each split.

    `alike`: also what a split must not divide; near-duplicates take some milliseconds an image.
    """
    table = pool.table
    lines = [
        f"{pool.noun}: {len(table)}",
        f"sizes: {_sizes(list(dict.fromkeys(table.path)))}",
        f"unreadable: {_first(dict(zip(pool.rejected.path, pool.rejected.reason)))}",
    ]
    if "label" in table.columns:
        lines.insert(1, f"classes: {_classes(table)}")
    if alike:
        lines.append(_alike(pool))
    return "\n".join([*map(_printable, (*lines, *pool.notes)), "", _by_client(table, pool.noun)])


def _alike(pool: Pool) -> str:
    """How many subjects there are or, where nobody says, near-duplicates."""
    if groups.kind_of(pool.table, groups.AUTO) == groups.SUBJECT:
        return f"subjects: {subjects_in(pool.table)}"
    with tempfile.TemporaryDirectory(prefix="tffapps-data-") as folder:  # where there is no cache none is begun
        cache = None if cache_folder().is_dir() else pathlib.Path(folder)
        return groups.sentence(pool.table, groups.of(pool.table, groups.DUPLICATES, cache))


def _first(reasons: dict[str, str]) -> str:
    shown = [f"{short(path)}: {reason}" for path, reason in list(reasons.items())[:_SHOWN]]
    more = [f"and {len(reasons) - _SHOWN} more"] if len(reasons) > _SHOWN else []
    return f"{len(reasons)} left out; {'; '.join([*shown, *more])}" if reasons else "none"


def _sizes(paths: Sequence[str]) -> str:
    """Width × height, the commonest first."""
    counts = collections.Counter(map(_size, paths))
    if len(counts) == 1:
        return next(iter(counts))
    shown = [f"{size} ({count})" for size, count in counts.most_common(_SHOWN)]
    return ", ".join(shown) + (f" and {len(counts) - _SHOWN} others" if len(counts) > _SHOWN else "")


def _size(path: str) -> str:
    size = header.size(path)
    return f"{size[0]}×{size[1]}" if size else "unknown"  # TensorFlow and OpenCV know more formats


def _classes(table: pd.DataFrame) -> str:
    counts = table.label.value_counts()
    names = manifests.classes(table)
    if len(names) > _MOST:
        return f"{len(names)}, of {counts.min()} to {counts.max()} images"
    return ", ".join(f"{name} ({counts[name]})" for name in names)


def _by_client(table: pd.DataFrame, noun: str) -> str:
    counts = pd.crosstab(table.client, table.split)
    counts = counts.reindex(columns=[split for split in _SPLITS if split in counts.columns])
    counts = counts.loc[sorted(counts.index, key=manifests.natural_key)]
    counts[noun] = counts.sum(axis=1)
    if "label" in table.columns:
        counts["classes"] = table.groupby("client").label.nunique()
    rows = counts.head(_MOST).reset_index()
    text = rows.to_string(index=False, formatters={"client": _printable})
    left = len(counts) - _MOST
    return f"{text}\n… and {left} more clients" if left > 0 else text


def _printable(text: str) -> str:
    """Names come from folders and tables: as in a UserError, what would steer a terminal is shown as escapes."""
    return str(UserError(text))
