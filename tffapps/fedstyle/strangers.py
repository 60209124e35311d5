"""How well artists are found who joined after training, and told from those who did not join: one pair of them.

Everybody's catalogue entry is made of training pictures. Newcomers' pictures are asked of a catalogue with everybody
in it; for the open set, members' and newcomers' pictures of one with the members alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from tffapps.evaluation import ranking
from tffapps.fedstyle import rivals, scoring
from tffapps.fedstyle.metric import Metric, spread_of

DEPTH = 10  # of mAP@10
# How familiar a picture looks: the similarity to the nearest prototype, as "none of these" is decided; the log of the
# sum of exp(similarity / SOFTNESS) over all prototypes; the distance to the nearest, negative; that and the distance
# to the centre of all.
OPEN_SET = ("nearest", "all", "distance", "relative")
SOFTNESS = 0.1


def pairs(names: Sequence[str], count: int) -> list[tuple[str, str]]:
    """The first `count` of all pairs, in an order in which everybody has had a turn before anybody's second."""
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    found = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        found += list(zip(circle[:half], reversed(circle[half:])))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return [(one, other) for one, other in found if one is not None and other is not None][:count]


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Of one pair: members have the codes below `members`, the newcomers those from there on."""

    labels: np.ndarray  # (n,)
    part: np.ndarray  # (n,) train, val or test; others are in no catalogue and ask nothing
    gallery: np.ndarray  # (n,) whether a catalogue has the picture: as many of everybody
    members: int

    @property
    def artists(self) -> int:
        return int(self.labels.max()) + 1

    def of(self, part: str, newcomers: bool) -> np.ndarray:
        """Positions of pictures that ask."""
        return np.flatnonzero((self.part == part) & ((self.labels >= self.members) == newcomers))

    def enrolled_and_not(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of newcomers' pictures: those in the catalogue, and their test pictures."""
        enrolled = np.flatnonzero(self.gallery & (self.labels >= self.members))
        return enrolled, self.of("test", newcomers=True)


@dataclasses.dataclass(frozen=True)
class Measure:
    """How vectors are compared: `shrinking` as `Metric.of` has it, 0: as they are; `voting` pictures, 0: prototypes."""

    shrinking: float = 0.0
    voting: int = 0

    @property
    def name(self) -> str:
        if self.voting:
            return f"{self.voting} nearest"
        return f"whitened {self.shrinking:g}" if self.shrinking else "centred"


@dataclasses.dataclass(frozen=True)
class Judged:
    """By one measure, of the parts val and test."""

    found: Mapping[str, np.ndarray]  # (q, 2) of newcomers' pictures: is their artist first, average precision of ten
    familiar: Mapping[str, Mapping[str, np.ndarray]]  # (members' pictures, then newcomers') by rule: `OPEN_SET`
    known: Mapping[str, int]  # how many of these are members'
    own: np.ndarray  # similarity to their own prototype, of newcomers' pictures: those enrolled, then their test ones

    def top_1(self, part: str) -> float:
        return float(self.found[part][:, 0].mean())

    def map_10(self, part: str) -> float:
        return float(self.found[part][:, 1].mean())

    def auroc(self, part: str, rule: str = OPEN_SET[0]) -> float:
        values, known = self.familiar[part][rule], self.known[part]
        return ranking.open_set_auroc(values[:known], values[known:])


class Compared:
    """Embeddings (n, d) of the pictures of one pair."""

    def __init__(self, vectors: np.ndarray, pictures: Pictures) -> None:
        self.vectors, self.pictures = vectors, pictures
        members = [(pictures.part == "train") & (pictures.labels == code) for code in range(pictures.members)]
        newcomers = [
            pictures.gallery & (pictures.labels == code) for code in range(pictures.members, pictures.artists)
        ]  # fmt: skip
        self._spreads = [spread_of(vectors[rows]) for rows in (*members, *newcomers)]

    def judged(self, measure: Measure) -> Judged:
        everybody, members = (
            Metric.of(self._spreads[:count], measure.shrinking) if measure.shrinking else None
            for count in (self.pictures.artists, self.pictures.members)
        )  # fmt: skip
        parts = ("val", "test")
        return Judged(
            {part: self._found(part, measure, everybody) for part in parts},
            {part: self._familiar(part, members) for part in parts},
            {part: len(self.pictures.of(part, newcomers=False)) for part in parts},
            self._own(everybody),
        )  # fmt: skip

    def _found(self, part: str, measure: Measure, metric: Metric | None) -> np.ndarray:
        pictures = self.pictures
        asked, gallery = pictures.of(part, newcomers=True), np.flatnonzero(pictures.gallery)
        queries, there = self._seen(asked, metric), self._seen(gallery, metric)
        codes, known = pictures.labels[asked], pictures.labels[gallery]
        cosines = rivals.cosines(queries, there)
        if measure.voting:
            first = rivals.votes(cosines, known, pictures.artists, measure.voting).argmax(axis=1)
        else:
            first = scoring.similarities(queries, scoring.means(there, known, pictures.artists)).argmax(axis=1)
        relevant = codes[:, None] == known
        precision = [
            ranking.mean_average_precision(relevant[row : row + 1], cosines[row : row + 1], DEPTH)
            for row in range(len(asked))
        ]
        return np.stack([first == codes, precision], axis=1).astype(np.float64)

    def _own(self, metric: Metric | None) -> np.ndarray:
        """Who knows a catalogue and has a picture asks: is it among those that the artist enrolled with?"""
        gallery, asked = np.flatnonzero(self.pictures.gallery), np.concatenate(self.pictures.enrolled_and_not())
        codes = self.pictures.labels
        prototypes = scoring.means(self._seen(gallery, metric), codes[gallery], self.pictures.artists)
        return scoring.similarities(self._seen(asked, metric), prototypes)[np.arange(len(asked)), codes[asked]]

    def _familiar(self, part: str, metric: Metric | None) -> dict[str, np.ndarray]:
        pictures = self.pictures
        asked = np.concatenate([pictures.of(part, newcomers) for newcomers in (False, True)])
        gallery = np.flatnonzero((pictures.part == "train") & (pictures.labels < pictures.members))
        queries, there = self._seen(asked, metric), self._seen(gallery, metric)
        prototypes = scoring.means(there, pictures.labels[gallery], pictures.members)
        similar = scoring.similarities(queries, prototypes)
        distances = np.linalg.norm(queries[:, None] - prototypes, axis=2).min(axis=1)
        centre = np.linalg.norm(queries - prototypes.mean(axis=0), axis=1)
        return {
            "nearest": similar.max(axis=1), "all": special.logsumexp(similar / SOFTNESS, axis=1),
            "distance": -distances, "relative": centre - distances,
        }  # fmt: skip

    def _seen(self, rows: np.ndarray, metric: Metric | None) -> np.ndarray:
        return self.vectors[rows] if metric is None else metric(self.vectors[rows])
