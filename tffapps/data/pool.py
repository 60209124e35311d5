"""The images of a command: a table of them, what the tables of results call them, and what a user should know."""

import dataclasses
import pathlib
import sys

import numpy as np
import pandas as pd

from tffapps.data import manifest
from tffapps.files import short
from tffapps.results import write_table

REJECTED = "rejected.csv"
STANDIN = "stand-in"


def no_rejects() -> pd.DataFrame:
    return pd.DataFrame(columns=["path", "client", "reason"])


def subjects_in(rows: pd.DataFrame) -> int:
    """How many subjects; an image whose subject is not known is one of its own."""
    if "subject" not in rows.columns:
        return len(rows)
    known = rows["subject"].astype(str)
    return int(known[known != ""].nunique() + (known == "").sum())


@dataclasses.dataclass(frozen=True)
class Pool:
    """All images that a command may use, at whichever clients and in whichever splits they are."""

    name: str  # for the tables
    table: pd.DataFrame  # path, label, client, split; perhaps subject, mask, source (of what was made of it), file, row
    classes: list[str]
    key: str  # changes with any image, label, client or split
    formats: tuple[str, ...] = ()  # of the images
    given: bool = False  # whether clients are as the data names them, and not drawn by a seed
    at_sites: bool = False  # whether (some of the) images are at sites: their paths mean something there alone
    noun: str = "images"  # what a row is
    notes: tuple[str, ...] = ()  # one line each
    rejected: pd.DataFrame = dataclasses.field(default_factory=no_rejects)  # path, reason: what cannot be used

    @property
    def clients(self) -> list[str]:
        """Those that train, in natural order."""
        return sorted(set(self.table.client[self.table.split == "train"]), key=manifest.natural_key)

    def part(self, split: str, client: str | None = None) -> pd.DataFrame:
        """The rows of a split, of all clients or of one."""
        rows = self.table[self.table.split == split]
        return rows if client is None else rows[rows.client == client]

    def codes(self, rows: pd.DataFrame) -> np.ndarray:
        """The labels of rows as numbers."""
        numbers = {label: number for number, label in enumerate(self.classes)}
        return np.array([numbers[label] for label in rows.label], np.int32)

    def announce(self, folder: pathlib.Path) -> None:
        """Says on stderr what a user should know of the data, and lists in `folder` what is left out."""
        for note in dict.fromkeys(self.notes):
            print(note, file=sys.stderr)
        write_table(folder / REJECTED, self.rejected)
        if len(self.rejected):
            first, total = self.rejected.iloc[0], len(self.rejected) + len(self.table)
            listed = f"{len(self.rejected)} of {total} {self.noun} cannot be used, listed in {folder / REJECTED}"
            print(f"{listed}; {short(first.path)}: {first.reason}", file=sys.stderr)
