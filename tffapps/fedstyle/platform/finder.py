"""A picture → the artists of the catalogue in their order, with "none of these" where it belongs among them."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import numpy as np

from tffapps.errors import Rejected, UserError
from tffapps.fedstyle import scoring
from tffapps.fedstyle.catalogue import Catalogue

if TYPE_CHECKING:
    from tffapps.fedstyle.encoder import Encoder

SHOWN = 5  # artists


@dataclasses.dataclass(frozen=True)
class Found:
    artist: str  # its id; "" for none of these
    similarity: float
    share: float | None  # a probability, where the catalogue's scores were fitted


@dataclasses.dataclass(frozen=True)
class Answer:
    found: list[Found]  # in their order, none of these among them
    artists: int  # that were compared
    fitted: int  # pictures that the scores were fitted on; 0: not fitted
    milliseconds: int

    @property
    def first(self) -> Found:
        return self.found[0]


class Finder:
    def __init__(self, catalogue: Catalogue, encoder: Encoder) -> None:
        self._catalogue, self._encoder = catalogue, encoder
        self._ready: tuple[list[str], scoring.Compared] | None = None

    def ask(self, contents: bytes) -> Answer:
        """Raises a UserError in one line for what cannot be asked with; nothing of it is kept."""
        begin = time.perf_counter()
        ids, compared = self._current()
        if not ids:
            raise UserError("no artist has joined yet: there is nobody to compare with")
        try:
            vector = self._encoder.of_bytes(contents)
        except Rejected as rejected:
            raise UserError(f"this picture: {rejected}") from None
        fitted = self._scoring()
        similarities = compared.similarities(vector[np.newaxis])
        shares = fitted.probabilities(similarities)[0]
        scores = np.append(similarities[0], fitted.none)
        order = np.argsort(-scores, kind="stable")
        names = [*ids, ""]
        kept = [int(place) for place in order if place < len(ids)][:SHOWN]
        shown = [int(place) for place in order if place in {*kept, len(ids)}]
        found = [
            Found(names[place], float(scores[place]), float(shares[place]) if fitted.pictures else None)
            for place in shown
        ]
        return Answer(found, len(ids), fitted.pictures, round(1000 * (time.perf_counter() - begin)))

    def _current(self) -> tuple[list[str], scoring.Compared]:
        """Everybody who is enrolled now; worked out anew where somebody has joined or left."""
        ready = self._ready
        if ready is None or ready[0] != self._catalogue.ids():
            enrolled = self._catalogue.enrolled()
            ready = self._ready = enrolled.ids, scoring.Compared(enrolled.prototypes, enrolled.spreads)
        return ready

    def _scoring(self) -> scoring.Scoring:
        about = dict(self._catalogue.rows("SELECT name, value FROM about"))
        if "fitted" not in about:
            return scoring.Scoring()
        return scoring.Scoring(float(about["temperature"]), float(about["none"]), int(about["fitted"]))
