"""What the platform keeps beside the artists, in the catalogue's file: tokens, requests, questions asked and ratings.

Tokens are kept as SHA-256. What refers to an artist goes when the artist goes: requests as a whole, of a question who
came first. Of a question there is no picture, no embedding and no address: when, by which role, what came first, how
long it took, and how reasonable who asked found the answer.
"""

from __future__ import annotations

import dataclasses
import secrets
from typing import Any

import pandas as pd

from tffapps import UserError
from tffapps.fedstyle.catalogue import Catalogue, hashed, line, now, paragraph

BUYER, ARTIST, OPERATOR = "buyer", "artist", "operator"
INVITATION = "invitation"  # with it an artist joins, once
ISSUED = (BUYER, INVITATION, OPERATOR)
MESSAGE, CONTACT, NOTE = 1500, 120, 60  # characters
MOST_REQUESTS, MOST_TOKENS = 200, 2000  # that wait for one artist; that are valid
LIKERT = ("very unreasonable", "unreasonable", "neutral", "reasonable", "very reasonable")  # 1 to 5
_LOGGED = 10_000  # questions that the log keeps, the newest; rated ones all stay
_TABLES = """
CREATE TABLE IF NOT EXISTS tokens (hash TEXT PRIMARY KEY, role TEXT NOT NULL, note TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS requests (id TEXT PRIMARY KEY, artist TEXT NOT NULL REFERENCES artists(id) ON DELETE CASCADE,
  words TEXT NOT NULL, contact TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS questions (id TEXT PRIMARY KEY, at TEXT NOT NULL, role TEXT NOT NULL, source TEXT NOT NULL,
  artists INTEGER NOT NULL, first TEXT REFERENCES artists(id) ON DELETE SET NULL, none INTEGER NOT NULL,
  similarity REAL, milliseconds INTEGER NOT NULL, rating INTEGER);
CREATE INDEX IF NOT EXISTS requests_of ON requests (artist);
CREATE INDEX IF NOT EXISTS questions_first ON questions (first);
"""


@dataclasses.dataclass(frozen=True)
class Question:
    """One line of the log."""

    role: str
    source: str
    artists: int
    first: str | None  # the artist's id; None for none of these
    similarity: float | None
    milliseconds: int


class Desk:
    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        with catalogue.opened() as rows:
            rows.executescript(_TABLES)

    def issue(self, role: str, note: str = "") -> str:
        """A new token, which is nowhere else from now on."""
        if role not in ISSUED:
            raise UserError(f"role: choose from {', '.join(ISSUED)}")
        token = secrets.token_hex(24)  # letters and digits: a value that begins with a hyphen is a flag to --invitation
        with self.catalogue.opened() as rows:
            if rows.execute("SELECT count(*) FROM tokens").fetchone()[0] >= MOST_TOKENS:
                raise UserError(f"{MOST_TOKENS} tokens are valid already: take some back")
            values = (hashed(token), role, paragraph(note, NOTE, "note"), now())
            rows.execute("INSERT INTO tokens VALUES (?, ?, ?, ?)", values)
        return token

    def role_of(self, token: str) -> str:
        """One of ISSUED; "" for a token that is not valid."""
        found = self.catalogue.rows("SELECT role FROM tokens WHERE hash = ?", hashed(token))
        return found[0][0] if found else ""

    def take_back(self, start: str) -> bool:
        """The token whose hash begins so; the last operator's stays."""
        with self.catalogue.opened() as rows:
            found = rows.execute("SELECT hash, role FROM tokens WHERE substr(hash, 1, 12) = ?", (start,)).fetchall()
            operators = rows.execute("SELECT count(*) FROM tokens WHERE role = ?", (OPERATOR,)).fetchone()[0]
            if len(found) != 1 or (found[0][1] == OPERATOR and operators < 2):
                return False
            return rows.execute("DELETE FROM tokens WHERE hash = ?", (found[0][0],)).rowcount == 1

    def use_up(self, token: str) -> bool:
        """An invitation, which serves once: True for whoever comes first."""
        with self.catalogue.opened() as rows:
            given = (hashed(token), INVITATION)
            return rows.execute("DELETE FROM tokens WHERE hash = ? AND role = ?", given).rowcount == 1

    def tokens(self) -> list[tuple]:
        """(beginning of its hash, role, note, when), the newest first."""
        return self.catalogue.rows("SELECT substr(hash, 1, 12), role, note, at FROM tokens ORDER BY at DESC, hash")

    def request(self, artist: str, words: object, contact: object) -> None:
        """A commission into an artist's inbox."""
        said = paragraph(words, MESSAGE, "what you wish for")
        if not said:
            raise UserError("what you wish for: say it in a few words")
        values = (secrets.token_hex(8), artist, said, line(contact, CONTACT, "how to reach you"), now())
        with self.catalogue.opened() as rows:
            if not rows.execute("SELECT 1 FROM artists WHERE id = ?", (artist,)).fetchone():
                raise UserError("this artist is not in the catalogue any more")
            if rows.execute("SELECT count(*) FROM requests WHERE artist = ?", (artist,)).fetchone()[0] >= MOST_REQUESTS:
                raise UserError("this artist's inbox is full; ask again later")
            rows.execute("INSERT INTO requests VALUES (?, ?, ?, ?, ?)", values)

    def inbox(self, artist: str) -> list[tuple]:
        """(id, words, contact, when), the newest first."""
        sql = "SELECT id, words, contact, at FROM requests WHERE artist = ? ORDER BY at DESC, id"
        return self.catalogue.rows(sql, artist)

    def remove_request(self, artist: str, request: str) -> bool:
        with self.catalogue.opened() as rows:
            sql = "DELETE FROM requests WHERE artist = ? AND id = ?"
            return rows.execute(sql, (artist, request)).rowcount == 1

    def log(self, question: Question) -> str:
        """The id by which who asked may rate the answer."""
        given, number = dataclasses.asdict(question), secrets.token_hex(12)
        with self.catalogue.opened() as rows:
            if given["first"] and not rows.execute("SELECT 1 FROM artists WHERE id = ?", (given["first"],)).fetchone():
                given["first"] = None  # withdrawn in the meantime
            values = {**given, "id": number, "at": now(), "none": question.first is None}
            rows.execute(
                "INSERT INTO questions VALUES"
                " (:id, :at, :role, :source, :artists, :first, :none, :similarity, :milliseconds, NULL)", values
            )  # fmt: skip
            rows.execute(
                "DELETE FROM questions WHERE rating IS NULL AND rowid <="
                " (SELECT rowid FROM questions ORDER BY rowid DESC LIMIT 1 OFFSET ?)", (_LOGGED,)
            )  # fmt: skip
        return number

    def logged(self, most: int = 50) -> list[tuple]:
        """(when, role, artists, first's name or None, whether none, similarity, milliseconds, rating), newest first."""
        return self.catalogue.rows(
            "SELECT q.at, q.role, q.artists, a.name, q.none, q.similarity, q.milliseconds, q.rating"
            " FROM questions q LEFT JOIN artists a ON a.id = q.first ORDER BY q.rowid DESC LIMIT ?", most
        )  # fmt: skip

    def rate(self, question: str, value: int) -> bool:
        """How reasonable an answer was, 1 to 5; once. False if there is no such answer, or it has been rated."""
        if not 1 <= value <= len(LIKERT):
            raise UserError(f"rating: choose from 1 to {len(LIKERT)}")
        with self.catalogue.opened() as rows:
            sql = "UPDATE questions SET rating = ? WHERE id = ? AND rating IS NULL"
            return rows.execute(sql, (value, question)).rowcount == 1

    def satisfaction(self) -> pd.DataFrame:
        """The paper's Table II, of the ratings there are: a row for each role and source that rated anything.

        D-value is the range; S.D. that of a sample, blank for a single rating. Operators' own are not counted.
        """
        rows = self.catalogue.rows(
            "SELECT role, source, rating FROM questions WHERE rating IS NOT NULL AND role IN (?, ?)", BUYER, ARTIST
        )
        columns = ["participation", "data source", "answers", "avg", "d_value", "sd"]
        if not rows:
            return pd.DataFrame(columns=columns)
        ratings = (
            pd.DataFrame(rows, columns=["role", "source", "rating"]).groupby(["role", "source"], sort=False).rating
        )
        found: list[dict[str, Any]] = [
            {
                "participation": role, "data source": source, "answers": len(each), "avg": each.mean(),
                "d_value": each.max() - each.min(), "sd": each.std(),
            }
            for (role, source), each in ratings
        ]  # fmt: skip
        return pd.DataFrame(found, columns=columns).sort_values(columns[:2], ascending=[False, True], ignore_index=True)
