"""What a site does when a coordinator asks for it: a system's job, on the site's own rows."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tffapps import systems
from tffapps.errors import UserError
from tffapps.wire.jobs import file_name
from tffapps.wire.messages import Message

# (request, the site's rows in the order of what it publishes, an empty folder for files) -> answer
Job = Callable[[Message, pd.DataFrame, Path], Message]


def find(name: Any) -> Job:
    """The function behind a job's name, <system>/<job>."""
    system, _, job = name.partition("/") if isinstance(name, str) else ("", "", "")
    if system in systems.packages():
        app = systems.find(system)
        if app.has("jobs") and job in app.part("jobs").JOBS:
            return app.part("jobs").JOBS[job]
    raise UserError(f"{name!r:.60} is nothing that this site does when asked")


def rows_asked(request: Message, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that a request is about: its array `rows` holds their numbers."""
    numbers = request.arrays.get("rows")
    if numbers is None or numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
        raise UserError("a request without the numbers of its rows")
    if numbers.min() < 0 or numbers.max() >= len(rows):
        raise UserError(f"a request about row {numbers.max()} of {len(rows)}")
    return rows.iloc[numbers].reset_index(drop=True)


def link_all(folder: Path, paths: Sequence[str]) -> None:
    """Gives files that lie elsewhere, such as in a cache, the names by which they are found."""
    for number, path in enumerate(paths):
        (folder / file_name(number)).symlink_to(Path(path).absolute())
