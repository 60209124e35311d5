"""The manifest: one pandas table that says which image belongs to which class, client and split.

    path, label, client, split            every manifest
    mask                                  the path of a segmentation mask, where there is one
    subject                               who or what was photographed; must not be in two splits
    file                                  the user's own, where path is a conversion of it (`tffapps.data.conversion`)

Paths are absolute, labels are class names (text, also where they look like numbers).
"""

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tffapps.errors import UserError
from tffapps.files import original

SPLITS = ("train", "val", "test")
COLUMNS = ("path", "label", "client", "split")
FILE = "file"
ONLY_CLIENT = "all"  # the client's name where a dataset has no clients
_REQUIRED = ("path", "label")
_SHOWN = 3


def add(notes: list[str] | None, line: str) -> None:
    """Keeps a line that a user should know; None: nobody asks for such lines."""
    if notes is not None:
        notes.append(line)


def load(data: Path, notes: list[str] | None = None) -> pd.DataFrame:
    """The manifest of a folder of images or of a CSV file; what a user should know of it is added to `notes`."""
    from tffapps.data.folders import from_folders  # it needs this module's names

    data = Path(data)
    if data.is_dir():
        return from_folders(data)
    if not data.exists():
        raise UserError(f"--data {data}: no such file or folder; give a folder of images or a manifest CSV")
    if data.suffix.lower() == ".csv":
        return read_manifest(data, notes)
    raise UserError(f"--data {data}: neither a folder nor a .csv file; give a folder of images or a manifest CSV")


def read_manifest(file: Path, notes: list[str] | None = None) -> pd.DataFrame:
    """A manifest from CSV; relative paths start at the CSV's folder, `client` and `split` may be left out."""
    file = Path(file)
    try:
        # Everything is text: a class called NA is not a missing value, and a label 007 keeps its zeros.
        table = pd.read_csv(file, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True)
    except FileNotFoundError:
        raise UserError(f"{file}: no such file; check the path of the manifest") from None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}); check its permissions") from None
    except pd.errors.EmptyDataError:
        raise UserError(f"{file}: empty; its first line must be {','.join(COLUMNS)}") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{file}: not a CSV table ({reason}); save it as comma-separated UTF-8") from None
    if not isinstance(table.index, pd.RangeIndex):  # pandas would take the first cell of each row for its name
        raise UserError(f"{file}: rows with more cells than the first line has names; put cells with a comma in quotes")
    table.columns = table.columns.str.strip()
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise UserError(f"{file}: the column {twice[0]} is there twice; rename one")
    missing = [name for name in _REQUIRED if name not in table.columns]
    if missing and len(table.columns) == 1 and ";" in table.columns[0]:
        raise UserError(f"{file}: its columns are separated by semicolons; save it with commas between them")
    if missing:
        found = ", ".join(table.columns)
        raise UserError(f"{file}: no column {' or '.join(missing)} (found: {found}); add it to the first line")
    if "client" not in table.columns:
        table["client"] = ONLY_CLIENT
    if "split" not in table.columns:
        table["split"] = "train"
    for column in ("path", "mask"):
        if column in table.columns:
            table[column] = [_absolute(value, file.parent) for value in table[column]]
    optional = [name for name in ("mask", "subject") if name in table.columns]
    unused = [name for name in table.columns if name not in (*COLUMNS, *optional)]
    if unused:
        add(notes, f"{file}: columns that are not used: {', '.join(unused)}")
    return table[[*COLUMNS, *optional]]


def named(manifest: pd.DataFrame) -> pd.Series:
    """The users' own files."""
    return manifest[FILE] if FILE in manifest.columns else manifest["path"]


def check(manifest: pd.DataFrame, *, labels: Sequence[str] | None = None) -> None:
    """Raises a UserError at the first thing that would spoil a run; `labels` are the classes it may hold."""
    if manifest.empty:
        raise UserError("the manifest has no rows; give at least one image for each client")
    _refuse(manifest, ~manifest.split.isin(SPLITS), "a split that is none of train, val, test", "correct it")
    for column in ("path", "label", "client"):
        _refuse(manifest, manifest[column].astype(str).str.strip() == "", f"an empty {column}", "fill it in")
    if labels is not None:
        unknown = ~manifest.label.isin(list(labels))
        _refuse(manifest, unknown, f"a label that is none of {', '.join(labels)}", "correct or remove them")
    _refuse(manifest, named(manifest).duplicated(), "a path that an earlier row has", "keep each image once")
    _refuse(manifest, _absent(manifest.path), "a file that does not exist", "correct the paths or remove the rows")
    if "mask" in manifest.columns:
        absent = _absent(manifest["mask"]) & (manifest["mask"] != "")
        _refuse(manifest, absent, "a mask that does not exist", "correct the paths or remove the rows")
    trained = set(manifest.client[manifest.split == "train"])
    idle = ~manifest.client.isin(trained)
    _refuse(manifest, idle, "a client without training images", "give it rows of split train or remove it")
    if "subject" in manifest.columns:
        known = manifest[manifest.subject.astype(str) != ""]
        splits = known.groupby("subject")["split"].nunique()
        torn = manifest.subject.isin(splits.index[splits > 1])
        _refuse(manifest, torn, "a subject that is in more than one split", "keep each subject in one split")


def check_classes(manifest: pd.DataFrame, source: str, notes: list[str] | None = None) -> None:
    """Refuses what no classifier can learn; notes which class cannot be tested. `source` is the flag it came with."""
    found = classes(manifest)
    if len(found) < 2:
        raise UserError(f"{source}: only one class ({', '.join(found) or 'none'}); a classifier needs two or more")
    for label in found:
        splits = set(manifest.split[manifest.label == label])
        if "train" not in splits:
            raise UserError(f"{source}: class {label} has no training image at any client; add some, or leave it out")
        if "test" not in splits and (manifest.split == "test").any():
            add(notes, f"{source}: class {label} has no test image, so nothing is said of it")


def classes(manifest: pd.DataFrame) -> list[str]:
    """The class names in order; class 2 comes before class 10."""
    return sorted(set(manifest.label), key=natural_key)


def natural_key(text: str) -> tuple:
    """Sorts runs of digits, however long, by value and everything else as text."""
    pieces = re.split(r"([0-9]+)", str(text))
    return tuple(_value(piece) if index % 2 else piece for index, piece in enumerate(pieces)), str(text)


def fingerprint(manifest: pd.DataFrame) -> str:
    """Sixteen hex digits that change with the rows, their order or a file's contents, not with the root."""
    names = named(manifest)
    root = os.path.commonpath([os.path.dirname(path) for path in names]) if len(manifest) else ""
    digest = hashlib.sha256()
    for name, row in zip(names, manifest.to_dict("records")):
        cells = [
            Path(os.path.relpath(name, root)).as_posix(),
            row["label"],
            row["client"],
            row["split"],
        ]
        cells.append(_contents(row["path"]))
        if row.get("mask"):
            mask = original(row["mask"])
            cells += [Path(os.path.relpath(mask, root)).as_posix(), _contents(row["mask"])]
        digest.update("\0".join(map(str, cells)).encode() + b"\n")
    return digest.hexdigest()[:16]


def _value(digits: str) -> tuple[int, str]:
    """Compares as the number does; int() refuses a few thousand digits."""
    digits = digits.lstrip("0")
    return len(digits), digits


def _absolute(path: str, folder: Path) -> str:
    return os.path.abspath(os.path.join(folder, path)) if path.strip() else ""


def _absent(paths: pd.Series) -> pd.Series:
    return ~paths.map(os.path.isfile).astype(bool)


def _contents(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "missing"


def _refuse(manifest: pd.DataFrame, bad: pd.Series, problem: str, remedy: str) -> None:
    """One line: the problem, how many rows have it, the first of them, the way out."""
    count = int(bad.sum())
    if not count:
        return
    first = manifest[bad].head(_SHOWN)
    first = first.assign(path=named(first))
    rows = "; ".join(
        f"{row.path} (label {row.label}, client {row.client}, split {row.split})" for row in first.itertuples()
    )
    more = f"; and {count - _SHOWN} more" if count > _SHOWN else ""
    raise UserError(f"manifest: {count} row{'s' if count > 1 else ''} with {problem}: {rows}{more}. To go on: {remedy}")
