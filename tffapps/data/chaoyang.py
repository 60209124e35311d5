"""Chaoyang: colon patches of four classes, and the clients among which FNST shares them out.

    <root>/train.json, <root>/test.json     [{"name": "train/x.JPG", "label": 0}, …], label 0 to 3
                                            or label_A, label_B and label_C, one of each pathologist
    <root>/train/x.JPG, <root>/test/y.JPG

    <root>/{train,test}/<class>/*           folders named after the classes

Where the three pathologists' labels are given and no `label`, one of the three is drawn for each image. The tables
have the columns of a manifest and pass `manifest.check` as they are read. After `imbalanced` the test images are the
server's, which has none to train with.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tffapps.data.folders import from_folders
from tffapps.data.manifest import COLUMNS, ONLY_CLIENT, SPLITS, natural_key
from tffapps.errors import UserError

CLASSES = ("normal", "serrated", "adenoma", "adenocarcinoma")  # in the order of the paper's clients
CODES = ("normal", "serrated", "adenocarcinoma", "adenoma")  # what the labels 0 to 3 of the published files mean
CLIENTS = ("client1", "client2", "client3", "client4")  # each rich in the class of its number
SERVER = "server"
ANNOTATORS = ("label_A", "label_B", "label_C")
_SIDES = ("train", "test")
_EXPECTED = "give the folder that holds train.json, test.json and the images they name"
_FOLDERS = f"lay the images out as {{train,test}}/<class>/* with the classes {', '.join(CLASSES)}"
_SHOWN = 3


def read(root: Path, seed: int = 0) -> pd.DataFrame:
    """path, label (a class name), client ("all") and split ("train" or "test"), in the order of the files."""
    root = Path(os.path.abspath(root))
    if not root.is_dir():
        raise UserError(f"{root}: {'not a folder' if root.exists() else 'no such folder'}; {_EXPECTED}")
    tables = []
    for number, split in enumerate(_SIDES):
        file = root / f"{split}.json"
        names, labels = _entries(file, np.random.default_rng([seed, number]))
        paths = [os.path.join(root, name) for name in names]
        _check_files(file, names, paths)
        tables.append(_table(paths, [CODES[label] for label in labels], split))
    return _checked(root, pd.concat(tables, ignore_index=True), _EXPECTED)


def from_class_folders(root: Path) -> pd.DataFrame:
    """The same table from `{train,test}/<class>/*`, the classes in their order."""
    found = from_folders(root)
    root = Path(os.path.abspath(root))
    parts = [Path(path).relative_to(root).parts for path in found.path]
    for part in parts:
        if len(part) != 3 or part[0] not in _SIDES or part[1] not in CLASSES:
            raise UserError(f"{root}: {'/'.join(part)} is out of place; {_FOLDERS}")
    places = [(_SIDES.index(side), CLASSES.index(label)) for side, label, _ in parts]
    order = sorted(range(len(found)), key=places.__getitem__)  # stable: files stay in their natural order
    return _checked(root, found.iloc[order].reset_index(drop=True), _FOLDERS)


def imbalanced(table: pd.DataFrame, rare: int, seed: int = 0) -> pd.DataFrame:
    """The table with its clients: each has all training images of its class, less `rare` for every other client.

    No image is at two clients. With the same seed, a client's images for a smaller `rare` are among those for a
    larger one. All that is not for training goes to the server.
    """
    if rare < 1:
        raise UserError(f"rare {rare}: every client needs at least 1 image of every other class")
    table = table.reset_index(drop=True)
    client = np.full(len(table), SERVER, object)
    for number, label in enumerate(CLASSES):
        own = np.flatnonzero((table.label == label) & (table.split == "train"))
        if len(own) <= rare * len(CLIENTS):
            raise UserError(
                f"{label}: {len(own)} training images, too few to give {rare} to each of {len(CLIENTS) - 1} clients "
                f"and keep more at {CLIENTS[number]}; choose a smaller number of rare images"
            )
        client[own] = CLIENTS[number]
        others = [name for name in CLIENTS if name != CLIENTS[number]]
        drawn = np.random.default_rng([seed, number]).permutation(own)[: rare * len(others)]
        client[drawn] = others * rare  # dealt in turn
    return table.assign(client=client)


def distribution(table: pd.DataFrame, classes: Sequence[str] = CLASSES) -> pd.DataFrame:
    """Images by client and split, one column for each class and their sum, the server last."""
    counts = pd.crosstab([table.client, table.split], table.label).reindex(columns=list(classes), fill_value=0)
    counts["images"] = counts.sum(axis=1)
    counts = counts.reset_index()
    counts.columns.name = None
    order = {"client": lambda name: (name == SERVER, natural_key(name)), "split": SPLITS.index}
    counts = counts.sort_values(["client", "split"], key=lambda column: column.map(order[str(column.name)]))
    return counts.reset_index(drop=True)


def _entries(file: Path, rng: np.random.Generator) -> tuple[list[str], list[int]]:
    """The names and labels of a JSON file."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; {_EXPECTED}")
    try:
        entries = json.loads(file.read_text(encoding="utf-8-sig"))
    except ValueError as error:  # text that is no UTF-8 is one too
        raise UserError(f"{file}: not JSON ({' '.join(str(error).split())}); download it again") from None
    if not isinstance(entries, list) or not entries:
        raise UserError(f'{file}: no list of images; it must hold [{{"name": "train/x.JPG", "label": 0}}, …]')
    choice = rng.integers(len(ANNOTATORS), size=len(entries)).tolist()
    names, labels = [], []
    for number, (entry, chosen) in enumerate(zip(entries, choice)):
        name, label = _entry(entry, chosen, f"{file}: image {number + 1} of {len(entries)}")
        names.append(name)
        labels.append(label)
    twice = pd.Series(names).map(os.path.normpath).duplicated().to_numpy()
    if twice.any():
        raise UserError(f"{file}: {twice.sum()} images named twice, such as {_first(names, twice)}; keep each once")
    return names, labels


def _entry(entry: Any, chosen: int, place: str) -> tuple[str, int]:
    """One image's name and its label, the chosen pathologist's where there are three."""
    if not isinstance(entry, dict):
        raise UserError(f'{place} is {entry!r:.60}; write it as {{"name": "train/x.JPG", "label": 0}}')
    wanted = ("label",) if "label" in entry or not any(key in entry for key in ANNOTATORS) else ANNOTATORS
    missing = [key for key in ("name", *wanted) if key not in entry]
    if missing:
        found = ", ".join(map(str, entry)) or "nothing"
        raise UserError(
            f"{place} has no {' and no '.join(missing)} (found: {found}); "
            f"give it a name and either label or {', '.join(ANNOTATORS)}"
        )
    if not isinstance(entry["name"], str) or not entry["name"].strip():
        raise UserError(f"{place} has the name {entry['name']!r}; give the path of its file below the folder")
    for key in wanted:
        if type(entry[key]) is not int or not 0 <= entry[key] < len(CLASSES):  # true is not 1 here
            meaning = ", ".join(f"{number} {label}" for number, label in enumerate(CODES))
            raise UserError(f"{place} ({entry['name']}) has {key} {entry[key]!r}; it must be one of {meaning}")
    return entry["name"], entry[wanted[chosen % len(wanted)]]


def _check_files(file: Path, names: list[str], paths: list[str]) -> None:
    absent = np.array([not os.path.isfile(path) for path in paths])
    if absent.any():
        raise UserError(
            f"{file}: {absent.sum()} of {len(names)} images have no file, such as {_first(names, absent)}; "
            "unpack the download again, or remove their entries"
        )


def _table(paths: list[str], labels: list[str], split: str) -> pd.DataFrame:
    table = pd.DataFrame({"path": paths, "label": labels, "client": ONLY_CLIENT, "split": split})
    table["path"] = table.path.map(os.path.normpath)
    return table[list(COLUMNS)]


def _checked(root: Path, table: pd.DataFrame, expected: str) -> pd.DataFrame:
    """The table, if no image is on both sides and every class is there to train and to test with."""
    twice = table.path.duplicated().to_numpy()
    if twice.any():
        first = table.path[twice].iloc[0]
        raise UserError(f"{root}: {twice.sum()} images both to train and to test with, such as {first}; keep each once")
    for split in _SIDES:
        missing = [label for label in CLASSES if label not in set(table.label[table.split == split])]
        if missing:
            raise UserError(f"{root}: no {' and no '.join(missing)} to {split} with; {expected}")
    return table


def _first(names: Iterable[str], which: np.ndarray) -> str:
    return ", ".join([name for name, shown in zip(names, which) if shown][:_SHOWN])
