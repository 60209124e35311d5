"""The cards of a catalogue: of an artist no more than what they chose to show."""

from __future__ import annotations

import dataclasses

from tffapps.fedstyle.catalogue import Catalogue


@dataclasses.dataclass(frozen=True)
class Card:
    """What an artist chose to show."""

    id: str
    name: str
    words: str
    published: list[int]


def cards(catalogue: Catalogue, ids: list[str] | None = None) -> dict[str, Card]:
    """By id; `ids`: of these alone."""
    rows = catalogue.rows("SELECT id, name, words FROM artists ORDER BY folded")
    places: dict[str, list[int]] = {}
    for artist, place in catalogue.rows("SELECT artist, place FROM published ORDER BY artist, place"):
        places.setdefault(artist, []).append(place)
    wanted = None if ids is None else set(ids)
    return {
        artist: Card(artist, name, words, places.get(artist, []))
        for artist, name, words in rows
        if wanted is None or artist in wanted
    }
