"""The registry of layouts: how a data set may lie on disk, and what reads it. All systems and `site serve` use it.

A new layout is a reader in a file of its own and an entry here.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tffapps.data import artists, chaoyang, conversion, folders, manifest, micrographs, oai, wilds
from tffapps.errors import UserError


@dataclasses.dataclass(frozen=True)
class Layout:
    """One way for files to lie.

    Args:
      expected: how, in one line.
      recognises: whether a path looks like it, told from a few names.
      read: the table of a path, lines that a user should know added to the list; a UserError where it is not as it
        should be. Some take options of their own.
    """

    expected: str
    recognises: Callable[[Path], bool]
    read: Callable[..., pd.DataFrame]  # (path, notes, **options)


def _has_pairs(folder: Path) -> bool:
    return all((folder / kind).is_dir() for kind in ("images", "labels"))


def _artists(source: Path, notes: list[str], public: bool = False) -> pd.DataFrame:
    """`public`: all pictures are the server's, where the artists have theirs elsewhere."""
    table, more = artists.read_public(source) if public else artists.read(source)
    notes += more
    return table


LAYOUTS = {
    "manifest": Layout("a CSV with the columns path,label,client,split", lambda path: not path.is_dir(), manifest.load),
    "micrograph": Layout(
        "images/* and labels/* of one client", _has_pairs, lambda path, notes: micrographs.read_client(path)
    ),
    "micrographs": Layout(
        "<client>/images/* and <client>/labels/*",
        lambda path: path.is_dir() and any(_has_pairs(each) for each in path.iterdir()),
        micrographs.read,
    ),
    "chaoyang": Layout(
        "Chaoyang's train.json, test.json and their folders",
        lambda path: any((path / name).is_file() for name in ("train.json", "test.json")),
        lambda path, notes: chaoyang.read(path),
    ),
    "chaoyang classes": Layout(
        f"{{train,test}}/<class>/* with the classes {', '.join(chaoyang.CLASSES)}",
        lambda path: all((path / "train" / label).is_dir() for label in chaoyang.CLASSES),
        lambda path, notes: chaoyang.from_class_folders(path),
    ),
    "wilds": Layout(
        "CAMELYON17 as WILDS has it: metadata.csv and patches/",
        lambda path: (path / wilds.METADATA).is_file(),
        lambda path, notes, **options: wilds.read_wilds(path, **options),
    ),
    "centres": Layout(
        "<centre>/<class>/*", Path.is_dir, lambda path, notes, **options: wilds.read_folders(path, **options)
    ),
    "artists": Layout("<artist>/*", Path.is_dir, _artists),
    "oai": Layout("{train,val,test}/<grade>/*", Path.is_dir, oai.read_oai),
    "folders": Layout(
        "<client>/<split>/<class>/*, <split>/<class>/* or <class>/*",
        Path.is_dir,
        lambda path, notes: folders.from_folders(path),
    ),
}
OF_SITES = ("manifest", "micrograph", "micrographs", "chaoyang", "wilds", "folders")  # each is told from its files


def recognise(source: Path, accepted: Sequence[str]) -> str:
    """The first of the accepted layouts that a path looks like; the last where it is like none: its reader says why."""
    for name in accepted:
        if name not in LAYOUTS:
            raise UserError(f"layout {name}: unknown; choose from {', '.join(LAYOUTS)}")
    return next((name for name in accepted if LAYOUTS[name].recognises(source)), accepted[-1])


def read(source: Path, accepted: Sequence[str], notes: list[str], **options: Any) -> pd.DataFrame:
    """The table of a path in one of the accepted layouts, its images such that TensorFlow can read them.

    `options` are those of the layouts' readers.
    """
    return conversion.converted(LAYOUTS[recognise(source, accepted)].read(source, notes, **options), notes)
