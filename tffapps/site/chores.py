"""What a site prepares from its own images when a coordinator asks for it, beside the rounds.

A round is TensorFlow and runs in the worker; separating stains or training a generator is not. So the coordinator has
the worker write a request into the site's working folder, the site's own process does what it says, and the worker
reads the answer:

    asked/<id>          the request, a parcel
    asked/<id>.ready    says that the request is whole; holds a word that the answer to this asking repeats
    answers/<id>        the answer, a parcel
    made/<id>/…         files that were made, which later pipelines read by these paths
    told/…              lines for the site's log

Nothing but the chores named here is done, on the site's own rows, and what is made stays at the site.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tffapps.errors import UserError
from tffapps.site.parcel import Parcel

# (request, the site's rows in the order of what it publishes, an empty folder for files) -> answer
Work = Callable[[Parcel, pd.DataFrame, Path], Parcel]

# Imported where they are done, in a process of their own: some need TensorFlow.
CHORES = {
    "stains": "tffapps.fedsda.chores:stains",
    "stain distances": "tffapps.fedsda.chores:distances",
    "alignment": "tffapps.fedsda.chores:alignment",
    "styles": "tffapps.fnst.chores:styles",
    "style transfer": "tffapps.fnst.chores:transfer",
    "tiles": "tffapps.fedtransfer.chores:tiles",
    "generator": "tffapps.fedtransfer.chores:generator",
    "painting": "tffapps.fedtransfer.chores:painting",
    "grains": "tffapps.fedtransfer.chores:grains",
}
ASKED, ANSWERS, MADE, TOLD, READY = "asked", "answers", "made", "told", ".ready"
CHORE = "chore"  # the word of a request that names it
ERROR, ASKING = "error", "asking"  # words of an answer: what went wrong, in one line, and in which asking


def work_of(name: Any) -> Work:
    if not isinstance(name, str) or name not in CHORES:
        raise UserError(f"{name!r:.60} is nothing that this site does when asked")
    module, _, function = CHORES[name].partition(":")
    return getattr(importlib.import_module(module), function)


def rows_asked(request: Parcel, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that a request is about: its array `rows` holds their places."""
    places = request.arrays.get("rows")
    if places is None or places.ndim != 1 or places.dtype.kind not in "iu" or not len(places):
        raise UserError("a request without the places of its rows")
    if places.min() < 0 or places.max() >= len(rows):
        raise UserError(f"a request about row {places.max()} of {len(rows)}")
    return rows.iloc[places].reset_index(drop=True)


def made_path(identity: str, number: int) -> str:
    """Where the worker finds the file with this number that a chore made."""
    return f"{MADE}/{identity}/{file_name(number)}"


def link_all(folder: Path, paths: Sequence[str]) -> None:
    """Gives files that lie elsewhere, such as in a cache, the names by which they are found."""
    for number, path in enumerate(paths):
        (folder / file_name(number)).symlink_to(Path(path).absolute())


def file_name(number: int) -> str:
    return f"{number:06d}"
