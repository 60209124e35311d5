"""Patches of several centres: CAMELYON17 as the WILDS benchmark ships it, or folders of patches.

    <root>/metadata.csv                                           patient,node,x_coord,y_coord,tumor,center,…
    <root>/patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png

    <root>/<client>/<class>/*.png                                 AGGC22, MITOS-ATYPIA-14: a client is a scanner

A centre is a client; the split is made here, 80/20 (folders: 60/40), by the share of each label. The patches of a
patient stay on one side, and with them those of a slide: neighbours on a slide are nearly the same picture. As
patients differ in size, the shares are met as nearly as that allows. The benchmark's own column `split` keeps whole
centres apart and is not used. In folders, patches named <slide>_<x>_<y>.png, as `preprocessing.patches` writes
them, stay together; others are taken one by one.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from preprocessing.suffixes import SUFFIXES
from tffapps.data import partition
from tffapps.data.folders import from_folders
from tffapps.data.manifest import COLUMNS, SPLITS, natural_key
from tffapps.errors import UserError

METADATA, PATCHES = "metadata.csv", "patches"
LABELS = ("normal", "tumour")  # tumor 0 and 1
TOGETHER = ("patient", "slide", "patch")  # what the split never tears
_NEEDED = ("patient", "node", "x_coord", "y_coord", "tumor", "center")
_EXPECTED = f"give the folder that holds {METADATA} and {PATCHES}/, such as camelyon17_v1.0"
_FOLDERS = "lay the patches out as <client>/<class>/*.png"
_SHOWN = 3


def read(root: Path, *, train: float | None = None, seed: int = 0, together: str = "patient") -> pd.DataFrame:
    """The manifest of either layout; `train` is the share to learn from, by default 0.8 or, of folders, 0.6."""
    if (Path(root) / METADATA).is_file():
        return read_wilds(root, train=0.8 if train is None else train, seed=seed, together=together)
    return read_folders(root, train=0.6 if train is None else train, seed=seed)


def read_wilds(root: Path, *, train: float = 0.8, seed: int = 0, together: str = "patient") -> pd.DataFrame:
    """path, label ("normal" or "tumour"), client ("centre0" …), split ("train" or "test") and subject."""
    if together not in TOGETHER:
        raise UserError(f"together is {together!r}; choose one of {', '.join(TOGETHER)}")
    root = _folder(root, _EXPECTED)
    rows = _metadata(root / METADATA)
    patient = "patient_" + rows.patient.astype(str).str.zfill(3)
    slide = patient + "_node_" + rows.node.astype(str)
    inside = slide + "/patch_" + slide + "_x_" + rows.x_coord.astype(str) + "_y_" + rows.y_coord.astype(str) + ".png"
    _check_files(root / PATCHES, rows, inside)
    table = pd.DataFrame(
        {
            "path": str(root / PATCHES) + "/" + inside,
            "label": np.where(rows.tumor == 1, LABELS[1], LABELS[0]),
            "client": "centre" + rows.center.astype(str),
            "subject": {"patient": patient, "slide": slide, "patch": inside}[together],
        }
    )
    return _divided(table, train, seed, singly=together == "patch")


def read_folders(root: Path, *, train: float = 0.6, seed: int = 0, one_class: bool = False) -> pd.DataFrame:
    """The manifest of `<client>/<class>/*`, divided here, or of `<client>/<split>/<class>/*`, as it is.

    `one_class`: a client may have one only, where nothing is to be classified.
    """
    root = _folder(root, _FOLDERS)
    clients = sorted((entry for entry in _visible(root) if entry.is_dir()), key=lambda entry: natural_key(entry.name))
    if not clients:
        raise UserError(f"{root}: no folders in it; {_FOLDERS}")
    if any(entry.name in SPLITS for entry in clients):
        raise UserError(f"{root}: holds a folder called {' or '.join(SPLITS)} and no clients; {_FOLDERS}")
    tables = []
    for entry in clients:
        loose = next((file.name for file in _visible(entry.path) if file.name.lower().endswith(SUFFIXES)), None)
        if loose:
            raise UserError(f"{entry.path}: patches without a class, such as {loose}; {_FOLDERS}")
        tables.append(from_folders(Path(entry.path)).assign(client=entry.name))
    table = pd.concat(tables, ignore_index=True)
    # Which layout it is, the paths say: <client>/<class>/x.png or <client>/<split>/<class>/x.png.
    depths = table.path.str.slice(len(str(root)) + 1).str.count("/")
    if (depths != depths.iloc[0]).any():
        shallow, deep = table.path[depths.idxmin()], table.path[depths.idxmax()]
        raise UserError(f"{root}: some patches have a split and some do not, such as {deep} and {shallow}; {_FOLDERS}")
    if depths.iloc[0] > 2:
        _check_clients(table, one_class)
        return table
    names = table.path.str.slice(len(str(root)) + 1)  # <client>/<class>/<file>
    slides = names.str.extract(r"([^/]+)_[0-9]+_[0-9]+\.[^./]+$", expand=False)
    table["subject"] = (table.client + "/" + slides).fillna(names)
    return _divided(table, train, seed, singly=bool(slides.isna().all()), one_class=one_class)


def distribution(table: pd.DataFrame) -> pd.DataFrame:
    """Patches by client and split, one column for each label and their sum, and how many subjects they are of."""
    counts = pd.crosstab([table.client, table.split], table.label)
    counts["patches"] = counts.sum(axis=1)
    if "subject" in table.columns:
        counts["subjects"] = table.groupby(["client", "split"])["subject"].nunique()
    counts = counts.reset_index()
    counts.columns.name = None
    order = {"client": natural_key, "split": SPLITS.index}
    counts = counts.sort_values(["client", "split"], key=lambda column: column.map(order[str(column.name)]))
    return counts.reset_index(drop=True)


def _metadata(file: Path) -> pd.DataFrame:
    """The needed columns, whole numbers all of them."""
    if not file.is_file():
        raise UserError(f"{file}: no such file; {_EXPECTED}")
    try:
        rows = pd.read_csv(file, encoding="utf-8-sig", low_memory=False)
    except pd.errors.EmptyDataError:
        raise UserError(f"{file}: empty; its first line must hold {','.join(_NEEDED)}") from None
    except (OSError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({' '.join(str(error).split())}); download it again") from None
    missing = [name for name in _NEEDED if name not in rows.columns]
    if missing:
        found = ", ".join(name for name in rows.columns if not name.startswith("Unnamed"))
        raise UserError(f"{file}: no column {' or '.join(missing)} (found: {found}); {_EXPECTED}")
    if rows.empty:
        raise UserError(f"{file}: no rows; give at least two patches of each label for every centre")
    rows = rows[list(_NEEDED)]
    numbers = rows.apply(pd.to_numeric, errors="coerce")
    for name in _NEEDED:
        bad = (numbers[name] % 1 != 0) | (numbers[name] < 0)  # the first is true of gaps and text too
        _refuse(file, rows, bad, f"a {name} that is no whole number")
    _refuse(file, rows, numbers.tumor > 1, "a tumor that is neither 0 nor 1")
    _refuse(file, rows, numbers.duplicated(list(_NEEDED[:4])), "the place of an earlier row")
    return numbers.astype(int)


def _check_files(folder: Path, rows: pd.DataFrame, inside: pd.Series) -> None:
    """Whether every row has its file. Each folder is listed once: asking for half a million files takes minutes."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; {_EXPECTED}")
    there = {
        f"{slide.name}/{file.name}" for slide in _visible(folder) if slide.is_dir() for file in _visible(slide.path)
    }
    absent = ~inside.isin(there)
    if absent.any():
        names = ", ".join(inside[absent].head(_SHOWN))
        raise UserError(
            f"{folder}: {absent.sum()} of {len(rows)} patches in {METADATA} have no file, such as {names}; "
            "unpack the download again, or remove their rows"
        )


def _divided(table: pd.DataFrame, train: float, seed: int, singly: bool, one_class: bool = False) -> pd.DataFrame:
    """The table with the column `split`, made client by client; `singly` if every patch is its own subject."""
    if not 0 < train < 1:
        raise UserError(f"train {train}: the share of the patches to learn from must lie between 0 and 1")
    _check_clients(table, one_class)
    split = np.empty(len(table), object)
    for client, rows in table.groupby("client").indices.items():
        own = table.iloc[rows]
        amount = f"{client}, {len(own)} patches of {own.subject.nunique()} subjects"
        try:
            groups = None if singly else own.subject.tolist()
            part = partition.stratified(own.label.tolist(), (train, round(1 - train, 9)), seed, groups=groups)
        except UserError as error:
            raise UserError(f"{amount}: {error}") from None
        for number, side in enumerate(("train", "test")):
            gone = set(own.label) - set(own.label[part == number])
            if gone:
                raise UserError(
                    f"{amount}, which are never divided: no {' and no '.join(sorted(gone))} to {side} with; "
                    "give it more subjects or patches, or another seed"
                )
        split[rows] = np.array(["train", "test"], object)[part]
    return table.assign(split=split)[[*COLUMNS, "subject"]]


def _check_clients(table: pd.DataFrame, one_class: bool) -> None:
    for client, own in table.groupby("client")["label"]:
        if len(own) == 1:
            raise UserError(f"{client}: a single patch, which cannot be divided; give it more or leave it out")
        if own.nunique() == 1 and not one_class:
            raise UserError(f"{client}: all of its {len(own)} patches are {own.iloc[0]}; add others or leave it out")


def _folder(root: Path, expected: str) -> Path:
    root = Path(os.path.abspath(root))
    if not root.is_dir():
        raise UserError(f"{root}: {'not a folder' if root.exists() else 'no such folder'}; {expected}")
    return root


def _visible(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


def _refuse(file: Path, rows: pd.DataFrame, bad: pd.Series, problem: str) -> None:
    if bad.any():
        first = int(bad.to_numpy().argmax())
        values = ", ".join(f"{name} {rows[name].iloc[first]}" for name in _NEEDED)
        raise UserError(f"{file}: {bad.sum()} rows with {problem}, such as line {first + 2} ({values}); correct it")
