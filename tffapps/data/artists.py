"""Pictures by artist, and the clients of FedStyle (Ran et al.): each artist is one client with one class.

    <root>/<artist>/*.jpg, *.png, …     divided here
    manifest.csv                        divided already: the client `server` has the public pictures

The table has the columns of a manifest: label and client are the artist, split is one of

    train     the client's own, 80 % of an artist's pictures less the public ones
    test      20 %
    public    the server's: 10 % of the training pictures

The paper says "we select 10% data from the training dataset as the public dataset" and not whether clients keep those
pictures too. Here they are taken out of the client's, so that nothing private is at the server.

Which side a picture is on depends on the seed, the artist's name and the file's name alone: other artists may come, go
or be renamed, and one picture more or less moves hardly any other. A manifest's clients may have several artists each.
Whether files can be read is not looked at here: see `tffapps.data.unreadable.drop_unreadable`, and ask `few` again
afterwards.
"""

import hashlib
import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from preprocessing.suffixes import SUFFIXES
from tffapps.data import manifest, partition
from tffapps.errors import UserError

SPLITS = ("train", "val", "test", "public")
KINDS = ("single", "even", "dirichlet", "sorted")
TEST, PUBLIC = 0.2, 0.1  # shares: of an artist's pictures, and of those that are not for testing
SERVER = "server"
_LACKS = {"train": "none to train with", "test": "none to test with", "public": "none for the server"}
_EXPECTED = "lay the pictures out as <artist>/*.jpg"


def read(source: Path, seed: int = 0) -> tuple[pd.DataFrame, list[str]]:
    """path, label, client and split in natural order, and a line about each artist with too little to share out.

    Of two pictures or more one at least is for testing; of two training pictures or more one at least is public. A
    single picture is for training. The rows of a manifest stay as they are, in their order.
    """
    if is_manifest(source):
        unused: list[str] = []
        table = manifest.load(source, unused)
        if SERVER not in set(table.client):
            raise UserError(f"{source}: no pictures of the client {SERVER}, which are the public ones; add some")
        table, notes = _checked(table)
        notes = unused + notes
    else:
        found, notes = _collected(source)
        rows = []
        for artist, folder, pictures in found:
            splits = _divide(artist, pictures, seed)
            rows += [(os.path.join(folder, name), artist, artist, splits[name]) for name in pictures]
        table = pd.DataFrame(rows, columns=list(manifest.COLUMNS))
    _need_two(table, source)
    return table, notes + few(table)


def read_public(source: Path) -> tuple[pd.DataFrame, list[str]]:
    """The server's pictures alone, all of them public, for where the artists have theirs elsewhere.

    Of a manifest those of the client `server`, or all if there is one client.
    """
    if is_manifest(source):
        unused: list[str] = []
        table = manifest.load(source, unused)
        clients = sorted(set(table.client), key=manifest.natural_key)
        if SERVER in clients:
            table = table[table.client == SERVER]
        elif len(clients) > 1:
            raise UserError(
                f"--data {source}: has the clients {', '.join(clients)}; across sites it is the public pictures, of the"
                f" client {SERVER} or of none"
            )
        table, notes = _checked(table.assign(client=SERVER))
        notes = unused + notes
    else:
        found, notes = _collected(source)
        rows = [
            (os.path.join(folder, name), artist, SERVER, "public")
            for artist, folder, pictures in found
            for name in pictures
        ]
        table = pd.DataFrame(rows, columns=list(manifest.COLUMNS))
    _need_two(table, source)
    return table, notes


def is_manifest(source: Path) -> bool:
    return Path(source).suffix.lower() == ".csv" and not Path(source).is_dir()


def as_given(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """A manifest's rows, or those of sites: the server's are public, the others' for training or testing as it says."""
    table = table[list(manifest.COLUMNS)].assign(label=table.label.map(_name))
    _refuse_twins((label, label) for label in sorted(set(table.label)))
    public = table.client == SERVER
    other = table[public & (table.split != "train")]
    if len(other):
        first = other.iloc[0]
        raise UserError(
            f"{first.path}: of the {SERVER} and of split {first.split}; its pictures are public, all to train with:"
            " make it train, or another client's"
        )
    table.loc[public, "split"] = "public"
    unused = table.split == "val"
    notes = [f"pictures of split val are not used, nothing is chosen by them: {unused.sum()}"] if unused.any() else []
    return table[~unused].reset_index(drop=True), notes


def few(table: pd.DataFrame) -> list[str]:
    """A line for each artist who is without pictures in one of the splits."""
    lines = []
    for artist in manifest.classes(table):
        splits = table.split[table.label == artist]
        missing = [lack for split, lack in _LACKS.items() if split not in set(splits)]
        if missing:
            lines.append(f"{artist}: {len(splits)} picture{'s' * (len(splits) > 1)}, {' and '.join(missing)}")
    return lines


def artists(table: pd.DataFrame, n: int) -> pd.DataFrame:
    """The pictures of the first `n` artists in natural order; those of a smaller `n` are among them."""
    names = manifest.classes(table)
    if not 2 <= n <= len(names):
        raise UserError(f"{n} artists asked for, there are {len(names)}; choose from 2 to {len(names)}")
    return table[table.label.isin(names[:n])].reset_index(drop=True)


def heterogeneous(
    table: pd.DataFrame, kind: str, clients: int | None = None, alpha: float = 0.5, seed: int = 0
) -> pd.DataFrame:
    """The table, its training pictures dealt to `clients` anew (by default as many as artists): FedStyle, Fig. 1(b).

    "single"      one artist, one client, as `read` has it; the paper's "sorted"
    "even"        every client has the same mix of artists
    "dirichlet"   each artist's pictures are shared out by Dirichlet(alpha)
    "sorted"      pictures sorted by artist and cut into equal parts: as "single" where artists have equally many

    But for "single", clients are called client1, client2, …, and the test and public pictures are the server's.
    """
    names = manifest.classes(table)
    count = len(names) if clients is None else clients
    table = table.reset_index(drop=True)
    if kind == "single":
        if count != len(names):
            raise UserError(f"{count} clients of one artist each, but there are {len(names)} artists; ask for as many")
        return table.assign(client=table.label)
    training = (table.split == "train").to_numpy()
    labels = table.label[training].tolist()
    if kind == "even":
        part = partition.even(labels, count, seed)
    elif kind == "dirichlet":
        part = partition.dirichlet(labels, count, alpha, seed)
    elif kind == "sorted":
        part = partition.sorted_shards(labels, count, seed, shards_per_client=1)
    else:
        raise UserError(f"kind {kind}: unknown; choose from {', '.join(KINDS)}")
    client = np.full(len(table), SERVER, object)
    client[training] = [f"client{number + 1}" for number in part]
    return table.assign(client=client)


def distribution(table: pd.DataFrame) -> pd.DataFrame:
    """client, split, label and how many pictures, where there are any, in natural order."""
    counts = table.groupby(["client", "split", "label"], as_index=False).agg(pictures=("path", "size"))
    keys = {"client": manifest.natural_key, "split": SPLITS.index, "label": manifest.natural_key}
    order = counts.sort_values(list(keys), key=lambda column: column.map(keys[str(column.name)]))
    return order.reset_index(drop=True)


def _checked(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    manifest.check(table)
    return as_given(table)


def _need_two(table: pd.DataFrame, source: Path) -> None:
    count = table.label.nunique()
    if count < 2:
        raise UserError(f"{source}: pictures of {count or 'no'} artist{'s' * (not count)}, 2 are needed; {_EXPECTED}")


def _collected(root: Path) -> tuple[list[tuple[str, str, list[str]]], list[str]]:
    """Each artist's name, folder and pictures in natural order, and a line about each folder without pictures."""
    root = Path(os.path.abspath(root))
    if not root.is_dir():
        raise UserError(f"{root}: {'not a folder' if root.exists() else 'no such folder'}; {_EXPECTED}")
    found, notes = [], []
    for artist, folder in _folders(root):
        pictures, others = _pictures(folder)
        if pictures:
            found.append((artist, folder, pictures))
        else:
            counted = f" ({others} files of other types)" if others else ""
            notes.append(f"{folder}: left out: no pictures ({', '.join(SUFFIXES)}) in it{counted}")
    return found, notes


def _folders(root: Path) -> list[tuple[str, str]]:
    """Each artist's name and folder, in natural order."""
    with os.scandir(root) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    loose = sorted(entry.name for entry in visible if _is_picture(entry.name) and entry.is_file())
    if loose:
        raise UserError(f"{root / loose[0]}: a picture outside the artists' folders; {_EXPECTED}, or remove it")
    found = sorted((_name(entry.name), entry.path) for entry in visible if entry.is_dir())
    _refuse_twins(found)
    return sorted(found, key=lambda pair: manifest.natural_key(pair[0]))


def _refuse_twins(found: Iterable[tuple[str, str]]) -> None:
    """Of artists' names, and what to call each of them by to the user."""
    seen: dict[str, str] = {}
    for artist, shown in found:
        other = seen.setdefault(_key(artist), shown)
        if other != shown:
            raise UserError(f"{other!r} and {shown!r}: two artists of the same name; rename one, or put them together")


def _pictures(folder: str) -> tuple[list[str], int]:
    """The names of an artist's pictures in natural order, and how many other files there are."""
    names: list[str] = []
    others = 0
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        visible = sorted(name for name in files if not name.startswith("."))
        pictures = [name for name in visible if _is_picture(name)]
        if pictures and place != folder:
            raise UserError(f"{os.path.join(place, pictures[0])}: a folder within an artist's folder; {_EXPECTED}")
        names += pictures
        others += len(visible) - len(pictures)
    return sorted(names, key=manifest.natural_key), others


def _divide(artist: str, names: list[str], seed: int) -> dict[str, str]:
    """Each picture's split."""

    def draw(name: str) -> bytes:
        text = f"{seed}/{_key(artist)}/{unicodedata.normalize('NFC', name)}"
        return hashlib.sha256(os.fsencode(text)).digest()

    test = max(1, round(TEST * len(names))) if len(names) > 1 else 0
    train = len(names) - test
    public = max(1, round(PUBLIC * train)) if train > 1 else 0
    splits = ["test"] * test + ["public"] * public + ["train"] * (train - public)
    return dict(zip(sorted(names, key=draw), splits))


def _is_picture(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _name(folder: str) -> str:
    """An artist's name: the folder's, however a disk writes its accents."""
    return " ".join(unicodedata.normalize("NFC", folder).split()) or folder


def _key(artist: str) -> str:
    """The same for names that differ in case, spaces or kinds of letters only."""
    return "".join(unicodedata.normalize("NFKC", artist).casefold().split())
