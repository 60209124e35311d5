"""An open catalogue of artists: one SQLite file with a prototype and a spread each, and the card they chose.

An artist joins with a mean of embeddings and how they scatter about it (`metric`), and leaves without anybody training
again. Deleted rows are written over
(SQLite's secure_delete), and what refers to an artist goes with it. The key that an artist withdraws with is kept as
its SHA-256.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import hashlib
import hmac
import secrets
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tffapps import UserError
from tffapps.fedstyle.metric import MOST

EMBEDDINGS = ("penultimate", "style", "both", "frozen")
CONSENT = (
    "I made these pictures, or may speak for who did. The mean and the spread of their embeddings, my name and my words"
    " may be kept and compared with others' pictures until I withdraw; of my pictures only those that I publish are"
    " kept."
)
FORMAT, MOST_ARTISTS = "tffapps catalogue 2", 500  # each adds up to 48 vectors to what every question is measured by
_OLDER = ("tffapps catalogue 1",)  # without spreads: artists can leave it
_ROUNDING = 0.02
NAME, WORDS, PUBLISHED = 80, 600, 3  # characters, characters, pictures
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE artists (id TEXT PRIMARY KEY, folded TEXT UNIQUE NOT NULL, name TEXT NOT NULL, words TEXT NOT NULL,
  pictures INTEGER NOT NULL, prototype BLOB NOT NULL, spread BLOB NOT NULL,
  consent TEXT NOT NULL, at TEXT NOT NULL, key TEXT NOT NULL);
CREATE TABLE published (artist TEXT NOT NULL REFERENCES artists(id) ON DELETE CASCADE, place INTEGER, jpeg BLOB);
"""


@dataclasses.dataclass(frozen=True)
class Entry:
    """What an artist sends."""

    name: str
    words: str
    pictures: int  # that the prototype is the mean of
    prototype: np.ndarray  # (width,), of length 1 or less
    consent: str
    published: Sequence[bytes] = ()  # JPEG
    spread: np.ndarray | None = None  # (k, width): `metric.spread_of`; None: of one picture


class Enrolled(NamedTuple):
    ids: list[str]
    prototypes: np.ndarray  # (artists, width)
    spreads: list[np.ndarray]  # (k, width) each


def _square(values: np.ndarray) -> float:
    return float(np.square(values, dtype=np.float64).sum())


def _widest(pictures: int, prototype: np.ndarray) -> float:
    """The sum of squares of a spread: what vectors of length 1 with this mean have, divided by them less one."""
    return pictures / max(pictures - 1, 1) * max(1 - _square(prototype), 0.0) + _ROUNDING


class Catalogue:
    """`with catalogue.opened() as rows:` is one transaction."""

    def __init__(self, path: Path, leaving: bool = False) -> None:
        """`leaving`: to withdraw from it, which a catalogue of an older version allows too."""
        self.path = path
        if not path.is_file():
            raise UserError(f"{path}: no such catalogue; tffapps fedstyle enrol makes one")
        try:
            self.about = dict(self.rows("SELECT name, value FROM about"))
        except sqlite3.DatabaseError:
            self.about = {}
        if self.about.get("format") in _OLDER:
            if not leaving:
                raise UserError(f"{path}: made by an older version; begin a new one, which its artists join anew")
        elif self.about.get("format") != FORMAT:
            raise UserError(f"{path}: not a catalogue of tffapps fedstyle; name another file")

    @classmethod
    def at(cls, path: Path, encoder: Any) -> Catalogue:
        """The one there, which must be of this encoder, or a new one."""
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            about = {"format": FORMAT, "encoder": encoder.fingerprint, "kind": encoder.kind}
            with contextlib.closing(sqlite3.connect(path)) as made, made:
                made.executescript(_TABLES)
                made.executemany("INSERT INTO about VALUES (?, ?)", [*about.items(), ("width", str(encoder.width))])
        found = cls(path)
        found.check_encoder(encoder.fingerprint)
        return found

    def check_encoder(self, fingerprint: str) -> None:
        if not hmac.compare_digest(fingerprint.encode(), self.about["encoder"].encode()):
            raise UserError(
                f"{self.path}: made with another bundle or --embedding; give its own"
                f" ({self.about['kind']}), or another file"
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.path, timeout=20)) as connection, connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA foreign_keys = ON")
            yield connection

    def rows(self, sql: str, *values: Any) -> list[tuple]:
        with self.opened() as connection:
            return connection.execute(sql, values).fetchall()

    def enrol(self, entry: Entry) -> tuple[str, str]:
        """(id, key) of the new artist. A UserError for what cannot be."""
        width = int(self.about["width"])
        name, words = line(entry.name, NAME, "name"), paragraph(entry.words, WORDS, "words")
        prototype = np.asarray(entry.prototype, "<f4")
        spread = np.zeros((0, width), "<f4") if entry.spread is None else np.asarray(entry.spread, "<f4")
        if prototype.shape != (width,) or not np.isfinite(prototype).all() or np.linalg.norm(prototype) > 1.01:
            raise UserError(f"prototype: expected {width} finite numbers of length 1 or less")
        if spread.ndim != 2 or spread.shape[1] != width or len(spread) > MOST or not np.isfinite(spread).all():
            raise UserError(f"spread: expected at most {MOST} rows of {width} finite numbers")
        if len(spread) > max(entry.pictures - 1, 0) or _square(spread) > _widest(entry.pictures, prototype):
            raise UserError("spread: more than that of so many vectors of length 1 about this prototype can be")
        if entry.consent != CONSENT:
            raise UserError("consent: it must be given in the words of this catalogue (--consent)")
        if len(entry.published) > PUBLISHED or not 1 <= entry.pictures <= 10**6:
            raise UserError(f"pictures: from 1 on, and at most {PUBLISHED} published")
        artist, key, at = secrets.token_hex(8), secrets.token_urlsafe(32), now()
        try:
            with self.opened() as rows:
                if rows.execute("SELECT count(*) FROM artists").fetchone()[0] >= MOST_ARTISTS:
                    raise UserError(f"{MOST_ARTISTS} artists: the catalogue is full")
                rows.execute(
                    "INSERT INTO artists VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        artist,
                        folded(name),
                        name,
                        words,
                        entry.pictures,
                        prototype.tobytes(),
                        spread.tobytes(),
                        CONSENT,
                        at,
                        hashed(key),
                    ),
                )
                for place, jpeg in enumerate(entry.published):
                    rows.execute("INSERT INTO published VALUES (?, ?, ?)", (artist, place, jpeg))
        except sqlite3.IntegrityError:
            raise UserError(f"name: there is a {name} already; choose another, or withdraw that one") from None
        return artist, key

    def withdraw(self, artist: str) -> bool:
        """Removes an artist and all that refers to it; False if there is none."""
        with self.opened() as rows:
            return rows.execute("DELETE FROM artists WHERE id = ?", (artist,)).rowcount == 1

    def ids(self) -> list[str]:
        """In the order in which they joined."""
        return [artist for (artist,) in self.rows("SELECT id FROM artists ORDER BY at, id")]

    def enrolled(self) -> Enrolled:
        """Everybody, in the same order."""
        found = self.rows("SELECT id, prototype, spread FROM artists ORDER BY at, id")
        width = int(self.about["width"])
        prototypes = [np.frombuffer(value, "<f4") for _, value, _ in found]
        return Enrolled(
            [each for each, _, _ in found],
            np.stack(prototypes) if prototypes else np.zeros((0, width), np.float32),
            [np.frombuffer(spread, "<f4").reshape(-1, width) for _, _, spread in found],
        )

    def remember(self, **about: Any) -> None:
        with self.opened() as rows:
            rows.executemany("REPLACE INTO about VALUES (?, ?)", [(name, str(value)) for name, value in about.items()])
        self.about |= {name: str(value) for name, value in about.items()}

    def who(self, key: str) -> str:
        """The id of the artist who has this key; "" nobody has."""
        known = hashed(key)
        found = self.rows("SELECT key, id FROM artists WHERE key = ?", known)
        return next((artist for given, artist in found if hmac.compare_digest(given, known)), "")


def line(text: object, most: int, what: str) -> str:
    """One line of text from a stranger."""
    if not isinstance(text, str) or not text.strip() or len(text) > most or not text.isprintable():
        raise UserError(f"{what}: expected one line of 1 to {most} printable characters")
    return text.strip()


def paragraph(text: object, most: int, what: str) -> str:
    """Words from a stranger, perhaps none; line ends become spaces."""
    joined = " ".join(text.split()) if isinstance(text, str) else None
    if joined is None or len(joined) > most or not joined.isprintable():
        raise UserError(f"{what}: expected at most {most} printable characters")
    return joined


def folded(name: str) -> str:
    """The same for names that differ in case or accents alone."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
