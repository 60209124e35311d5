"""Images that TensorFlow cannot read (DICOM, TIFF, NIfTI), converted once to PNG files in the cache.

`layouts.read` does this to every table, so that loaders, pipelines, engines and sites see PNG files and know nothing of
it. A converted row has the user's own file in its column `file`; `tffapps.files.short` finds it by the PNG's path. What
cannot be converted keeps its path: `tffapps.data.unreadable` says why.

    data/cache/converted/3f/a2/3fa2….png        by content: a file that moves is found again
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

from preprocessing import formats
from preprocessing.header import Header
from tffapps import files
from tffapps.data import pseudonyms
from tffapps.data.cache import cached_images
from tffapps.data.manifest import FILE, add
from tffapps.errors import Rejected
from tffapps.home import cache_folder
from tffapps.progress import track

_FEW = 24  # files that are converted sooner than other processes have started
_MANY = 2000  # files whose headers take long enough for a bar
_COLUMNS = ("path", "mask")


def converted(table: pd.DataFrame, notes: list[str] | None = None) -> pd.DataFrame:
    """The table, its files in other formats replaced by PNG files; subjects by patient where it names none."""
    columns = [column for column in _COLUMNS if column in table.columns]
    headers = _headers(path for column in columns for path in table[column])
    if not headers:
        return table
    pngs = _convert(list(headers))
    found = table.assign(**{column: [pngs.get(path, path) for path in table[column]] for column in columns})
    if any(path in pngs for path in table.path):
        found[FILE] = table.path
    _warn(headers, table, notes)
    return found if "subject" in found.columns else _with_subjects(found, table.path, headers, notes)


def converted_paths(paths: Sequence[str]) -> list[str]:
    """The same of a list of files: the PNG file of each, or the path itself where it needs none or none can be made."""
    pngs = _convert(list(_headers(paths)))
    return [pngs.get(path, path) for path in paths]


def _headers(paths: Iterable[str]) -> dict[str, Header]:
    """Those that are to be converted and not too large, and what they say of themselves."""

    def look(path: str) -> Header | None:
        try:
            return formats.header(path)
        except Rejected:
            return None

    wanted = [path for path in dict.fromkeys(paths) if path and not formats.is_plain(path) and os.path.isfile(path)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        looked = track(pool.map(look, wanted), len(wanted), "looking at files", show=len(wanted) > _MANY)
        return {path: header for header, path in zip(looked, wanted) if header is not None}


def _convert(paths: Sequence[str]) -> dict[str, str]:
    """The PNG file of each path that can be converted."""
    workers = 1 if len(paths) < _FEW else None
    pngs, _ = cached_images(
        paths,
        formats.to_png,
        {"at": formats.MIDDLE},
        cache_folder() / "converted",
        workers=workers,
        progress=len(paths) >= _FEW,
        title="converting",
    )
    made = {path: os.path.abspath(png) for path, png in zip(paths, pngs) if png is not None}
    for path, png in made.items():
        files.remember(png, path)
    return made


def _warn(headers: dict[str, Header], table: pd.DataFrame, notes: list[str] | None) -> None:
    marked = sum(path in headers and headers[path].burned_in for path in table.path)
    if marked:
        add(notes, f"DICOM files that say that text is burned into their pictures: {marked}; does it name anybody?")


def _with_subjects(
    table: pd.DataFrame, own: pd.Series, headers: dict[str, Header], notes: list[str] | None
) -> pd.DataFrame:
    """The table with a pseudonym for each patient; without, where all have one ID, as anonymised files often do."""
    owners = [headers[path].owner if path in headers else "" for path in own]
    count = sum(map(bool, owners))
    if not count:
        return table
    if count > 1 and len(set(filter(None, owners))) == 1:
        add(notes, f"all {count} DICOM files have the same PatientID: it tells nobody apart, and is not used")
        return table
    salt = pseudonyms.salt()
    add(notes, f"subjects are the patients of {count} DICOM files, under pseudonyms; a manifest's column subject wins")
    return table.assign(subject=[pseudonyms.pseudonym(owner, salt) if owner else "" for owner in owners])
