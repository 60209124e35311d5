"""The "Knee Osteoarthritis Severity Grading" folder (OAI radiographs) and the splits of the PLFL thesis.

    <root>/{train,val,test,auto_test}/{0,1,2,3,4}/9595235R.png        grade (KL) 0 to 4, right knee of a subject

All splits but `auto_test`, which shows knees of `test` again, are pooled; of the grades those that are asked for are
read (the thesis leaves out 1 and 2); this is divided anew. Both knees of a subject always stay on
the same side of every cut, so the parts are equal only as nearly as that allows (the thesis divides
images, not subjects).
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from preprocessing.formats import is_image
from tffapps.data import partition
from tffapps.data.grades import NAMES, USED
from tffapps.data.manifest import COLUMNS, ONLY_CLIENT, SPLITS, natural_key
from tffapps.errors import UserError

GRADES = tuple(NAMES)
LABELS = {grade: NAMES[grade] for grade in USED}
CLIENTS = ("client1", "client2")
SERVER = "server"
_EXPECTED = "give the folder that holds train/0 to train/4, val/0 to val/4 and test/0 to test/4"
_TENTHS = (0.8, 0.1, 0.1)  # train, val, test


def read_oai(root: Path, notes: list[str] | None = None, grades: Sequence[str] = USED) -> pd.DataFrame:
    """The pool: path, label, client ("all"), split (the folder's) and subject (the digits of the file name).

    An image that is there twice, under one name and with the same content, counts once; how many were left out
    is added to `notes`.
    """
    root = Path(os.path.abspath(root))
    if not root.is_dir():
        problem = "not a folder" if root.exists() else "no such folder"
        raise UserError(f"{root}: {problem}; {_EXPECTED}")
    splits = [split for split in SPLITS if (root / split).is_dir()]
    if not splits:
        raise UserError(f"{root}: none of the folders {', '.join(SPLITS)} in it; {_EXPECTED}")
    if not any((root / split / grade).is_dir() for split in splits for grade in GRADES):
        places = ", ".join(str(root / split) for split in splits)
        raise UserError(f"{places}: none of the grade folders {', '.join(GRADES)}; {_EXPECTED}")
    rows = []
    for grade in sorted(grades):
        label = NAMES[grade]
        found = [
            (str(file), label, ONLY_CLIENT, split, _subject(file))
            for split in splits
            for file in _images(root / split / grade)
        ]
        if not found:
            places = ", ".join(str(root / split / grade) for split in splits)
            raise UserError(f"{places}: no image of grade {grade} ({label}); {_EXPECTED}")
        rows += found
    table = pd.DataFrame(rows, columns=[*COLUMNS, "subject"])
    copies = _copies(table)
    if copies and notes is not None:
        notes.append(f"{root}: {len(copies)} copies of other images left out, such as {copies[0]}")
    return table[~table.path.isin(copies)].reset_index(drop=True)


def csfl_split(table: pd.DataFrame, seed: int, tested: bool = True) -> pd.DataFrame:
    """Supervised federation (Table 4.4): a tenth for the server's test, the rest in halves of 80/10/10.

    In this and the other frameworks, `tested`: the server's test images are drawn, too; else they are held out already.
    """
    table = table.reset_index(drop=True)
    if tested:
        _assign(table, table.index, "client", (SERVER, *CLIENTS), (0.1, 0.45, 0.45), seed, "CSFL clients")
    else:
        _assign(table, table.index, "client", CLIENTS, (1, 1), seed, "CSFL clients")
    table["split"] = "test"
    for client in CLIENTS:
        _assign(table, _of(table, client), "split", SPLITS, _TENTHS, seed, f"CSFL split of {client}")
    return _checked(table, CLIENTS)


def gold_split(table: pd.DataFrame, seed: int, tested: bool = True, share: float = 0.0) -> pd.DataFrame:
    """Pseudo-labels (Table 4.5): thirds. The server's is gold, 80/10/10; the clients' labels only serve reports.

    `share`: of the images, the server's; the clients have the others in halves. 0: a third.
    """
    table = _thirds(table, seed, tested, share)
    table.loc[table.client != SERVER, "split"] = "train"
    return _checked(table, (SERVER,))


def fssfl_split(table: pd.DataFrame, seed: int, tested: bool = True) -> pd.DataFrame:
    """FixMatch: the thirds of `gold_split`; a client keeps 20 % as test and knows the labels of 20 % of the rest.

    The new column `labelled` is false for the images whose label training must not see.
    """
    table = _thirds(table, seed, tested)
    table["labelled"] = True
    for client in CLIENTS:
        what = f"FSSFL split of {client}"
        _assign(table, _of(table, client), "split", ("train", "test"), (0.8, 0.2), seed, what)
        trained = table.index[(table.client == client) & (table.split == "train")]
        _assign(table, trained, "labelled", (True, False), (0.2, 0.8), seed, f"{what}, labelled or not")
    return _checked(table, (*CLIENTS, SERVER))


def classes(table: pd.DataFrame) -> list[str]:
    """The labels from healthy to severe; those of other data in their natural order."""
    known, found = list(LABELS.values()), set(table.label)
    if found <= set(known):
        return known
    graded = [name for name in NAMES.values() if name in found]
    return graded if len(graded) == len(found) else sorted(found, key=natural_key)


def distribution(table: pd.DataFrame) -> pd.DataFrame:
    """Images by client, split (and labelled), one column for each class and their sum, the server last."""
    keys = ["client", "split", *(["labelled"] if "labelled" in table.columns else [])]
    counts = pd.crosstab([table[key] for key in keys], table.label).reindex(columns=classes(table), fill_value=0)
    counts["images"] = counts.sum(axis=1)
    order = {"client": _client_place, "split": SPLITS.index, "labelled": lambda known: not known}
    counts = counts.reset_index().sort_values(keys, key=lambda column: column.map(order[str(column.name)]))
    counts.columns.name = None
    return counts.reset_index(drop=True)


def _thirds(table: pd.DataFrame, seed: int, tested: bool, share: float = 0.0) -> pd.DataFrame:
    """Three equal clients, one of them the server, whose images are divided 80/10/10, or 80/10 if none are `tested`."""
    table = table.reset_index(drop=True)
    shares = (1 - share, 1 - share, 2 * share) if share else (1, 1, 1)
    _assign(table, table.index, "client", (*CLIENTS, SERVER), shares, seed, "thirds")
    parts = len(SPLITS) if tested else SPLITS.index("test")
    what = "split of the server's gold images"
    _assign(table, _of(table, SERVER), "split", SPLITS[:parts], _TENTHS[:parts], seed, what)
    return table


def _assign(
    table: pd.DataFrame,
    rows: pd.Index,
    column: str,
    names: Sequence,
    shares: Sequence[float],
    seed: int,
    what: str,
) -> None:
    """Writes one of the names into the column of each row: all rows of a subject get the same one."""
    chosen = table.loc[rows]
    try:
        part = partition.stratified(list(chosen.label), shares, seed, groups=list(chosen.subject))
    except UserError as error:
        raise UserError(f"{what}, {_amount(chosen)}: {error}") from None
    table.loc[rows, column] = [names[number] for number in part]


def _checked(table: pd.DataFrame, learners: Sequence[str]) -> pd.DataFrame:
    """The table, if everyone who learns from labels has all classes to learn."""
    for learner in learners:
        trained = table[(table.client == learner) & (table.split == "train")]
        missing = [label for label in classes(table) if label not in set(trained.label)]
        if missing:
            raise UserError(
                f"{learner}: no {' and no '.join(missing)} among its {len(trained)} training images "
                f"(in all: {_amount(table[table.label.isin(missing)])}); give more images of it"
            )
    return table


def _amount(table: pd.DataFrame) -> str:
    return f"{len(table)} images of {table.subject.nunique()} subjects"


def _of(table: pd.DataFrame, client: str) -> pd.Index:
    return table.index[table.client == client]


def _client_place(client: str) -> tuple:
    return client == SERVER, natural_key(client)


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    files = (file for file in folder.iterdir() if file.name[0] != "." and is_image(file))
    return sorted(files, key=lambda file: natural_key(file.name))


def _subject(file: Path) -> str:
    return "".join(re.findall("[0-9]+", file.stem)) or file.stem


def _copies(table: pd.DataFrame) -> list[str]:
    """The paths whose name, size and content an earlier row has; only files alike in the first two are read."""
    keys = pd.DataFrame({"name": table.path.map(os.path.basename), "size": table.path.map(os.path.getsize)})
    alike = table[keys.duplicated(keep=False)]
    first: dict[tuple[str, str], str] = {}
    label = dict(zip(alike.path, alike.label))
    copies = []
    for path in alike.path:
        key = os.path.basename(path), hashlib.sha256(Path(path).read_bytes()).hexdigest()
        kept = first.setdefault(key, path)
        if label[kept] != label[path]:
            raise UserError(f"{path}: the same image as {kept}, which has another grade; remove the wrong one")
        if kept != path:
            copies.append(path)
    return copies
