"""A site's data: what others may know of it, and the one folder in which its worker finds it.

The worker's working folder is a new one of links:

    site.json              what `describe` prints
    train/0/000000         a link to the first training image of class 0, and so on
    train/0/000000.mask    a link to its mask, where there is one

So whoever knows the counts knows every relative path, file names stay at the site, and rows of other clients, or files
that no row names, have no relative path. Other paths than these the gate refuses (`gate.py`), and the sandbox does not
open (`confinement.py`).
"""

import collections
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tffapps import __version__
from tffapps.data import header, layouts, micrographs, published, standin
from tffapps.data import manifest as manifests
from tffapps.errors import UserError
from tffapps.wire import protocol


def load(data: Path, name: str, notes: list[str] | None = None) -> pd.DataFrame:
    """The rows of a folder or manifest that are this site's: those of its client, or all if there is one client.

    Folders of micrographs and their labels are rows with masks; they are divided where they are cut into tiles.
    """
    source = Path(os.path.abspath(data))
    table = layouts.read(source, layouts.OF_SITES, [] if notes is None else notes)
    if layouts.recognise(source, layouts.OF_SITES) in ("micrograph", "micrographs"):
        columns = [*manifests.COLUMNS, "mask", "subject", *([manifests.FILE] if manifests.FILE in table else [])]
        table = table.assign(label=micrographs.LABEL, split="train")[columns]
    manifests.check(table)
    clients = sorted(set(table.client), key=manifests.natural_key)
    if name in clients:
        table = table[table.client == name]
    elif len(clients) > 1:
        raise UserError(f"--name {name}: --data {data} holds the clients {', '.join(clients)}; give one of them")
    table = table.assign(client=name).reset_index(drop=True)
    unreadable = next((path for path in table.path if not os.access(path, os.R_OK)), None)
    if unreadable:
        raise UserError(f"--data {data}: {unreadable} cannot be read; check its permissions")
    return table


def readable(table: pd.DataFrame, name: str, source: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows whose image can be read, and what the site publishes of them; the others are named to its user."""
    from tffapps.site.look_at_files import look

    reasons, formats = look(list(table.path))
    for path, own in zip(table.path, manifests.named(table)):
        if path in reasons:
            print(f"left out: {own}: {reasons[path]}", file=sys.stderr)
    left = table[~table.path.isin(list(reasons))].reset_index(drop=True)
    if reasons:
        manifests.check(left)
    extras = {"formats": formats, "left_out": len(table) - len(left), "stand_in": standin.is_standin(source)}
    return left, {**describe(left, name), **extras}


def describe(table: pd.DataFrame, name: str) -> dict[str, Any]:
    """What a site publishes: counts, sizes and fingerprints, and no file names."""
    classes = manifests.classes(table)
    counts = {
        split: {label: int(((table.split == split) & (table.label == label)).sum()) for label in classes}
        for split in manifests.SPLITS
    }
    sizes = collections.Counter(_size(path) for path in table.path)
    masks = int((table["mask"] != "").sum()) if "mask" in table.columns else 0
    return {
        "name": name,
        "version": __version__,
        **protocol.own(),
        "classes": classes,
        "images": counts,
        "masks": masks,
        "sizes": dict(sorted(sizes.items(), key=lambda item: manifests.natural_key(item[0]))),
        "formats": [],  # of the files, where they were looked at
        "left_out": 0,  # images that cannot be read; they count nowhere else
        "stand_in": False,
        "subjects": "subject" in table.columns and bool((table["subject"].astype(str) != "").any()),
        "fingerprint": manifests.fingerprint(table),  # changes with the images: a run does not go on with others
    }


@contextlib.contextmanager
def working_folder(table: pd.DataFrame, description: Mapping[str, Any]) -> Iterator[Path]:
    """The folder of links, for as long as the `with` block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="tffapps-site-"))
    try:
        (folder / protocol.DESCRIPTION).write_text(json.dumps(description, indent=1) + "\n")
        for split in manifests.SPLITS:
            for index, label in enumerate(description["classes"]):
                (folder / split / str(index)).mkdir(parents=True)
                rows = table[(table.split == split) & (table.label == label)]
                for number, row in enumerate(rows.to_dict("records")):
                    link = folder / published.relative_path(split, index, number)
                    link.symlink_to(row["path"])
                    if row.get("mask"):
                        link.with_name(link.name + published.MASK).symlink_to(row["mask"])
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _size(path: str) -> str:
    size = header.size(path)
    return f"{size[0]}x{size[1]}" if size else "unreadable"
