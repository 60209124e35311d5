"""How near a picture is to artists' prototypes, and how sure that is, with "none of these" as one of the answers.

Vectors are seen by the catalogue's metric (`metric`). Cosines of embeddings lie close together because all embeddings
share a direction: pictures and prototypes are centred at the mean of the prototypes first, where there are `CENTRED` of
them. "None of these" has a similarity of its own, and probabilities are the softmax of all similarities over a
temperature. Both numbers are fitted on pictures of enrolled artists that no prototype was made of: once with their
artist in the catalogue, once without, when "none of these" is right. Not fitted, probabilities mean nothing, and are
not to be shown as if they did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import optimize, special

from tffapps import UserError
from tffapps.evaluation import ranking
from tffapps.fedstyle.metric import Metric

CENTRED = 3  # prototypes, from which on they are centred
LEAST_ARTISTS, LEAST_PICTURES = CENTRED + 1, 20  # for a fit: leaving one artist out must not change what centred means


@dataclasses.dataclass(frozen=True)
class Scoring:
    temperature: float = 0.1
    none: float = 0.3  # the similarity of "none of these"
    pictures: int = 0  # that both were fitted on; 0: not fitted

    def probabilities(self, similarities: np.ndarray) -> np.ndarray:
        """(n, artists + 1) of similarities (n, artists); the last is "none of these"."""
        return special.softmax(_with_none(similarities, self.none) / self.temperature, axis=1)

    @classmethod
    def fit(cls, vectors: np.ndarray, labels: np.ndarray, compared: Compared) -> Scoring:
        """Of pictures (n, d), and the places (n,) of their artists in the catalogue."""
        artists = len(compared.prototypes)
        if artists < LEAST_ARTISTS or len(vectors) < LEAST_PICTURES:
            raise UserError(
                f"{len(vectors)} pictures, {artists} artists: a fit needs {LEAST_PICTURES} and {LEAST_ARTISTS}"
            )
        known, strange = compared.similarities(vectors), compared.left_out(vectors, labels)

        def loss(values: np.ndarray) -> float:
            temperature, none = np.exp(values[0]), values[1]
            first = special.log_softmax(_with_none(known, none) / temperature, axis=1)
            second = special.log_softmax(_with_none(strange, none) / temperature, axis=1)
            return -float(first[np.arange(len(labels)), labels].mean() + second[:, -1].mean())

        found = optimize.minimize(loss, [np.log(cls.temperature), cls.none], method="Nelder-Mead")
        return cls(float(np.exp(np.clip(found.x[0], -6, 3))), float(np.clip(found.x[1], -2, 2)), len(vectors))


class Compared:
    """Pictures with the prototypes (artists, d) of a catalogue, by the metric of its spreads; none: as they are."""

    def __init__(self, prototypes: np.ndarray, spreads: Sequence[np.ndarray] = ()) -> None:
        self.prototypes, self._spreads = prototypes, list(spreads)
        self._metric = Metric.of(self._spreads) if self._spreads else None

    def similarities(self, vectors: np.ndarray) -> np.ndarray:
        """(n, artists) of vectors (n, d)."""
        return similarities(self.seen(vectors), self.seen(self.prototypes))

    def seen(self, vectors: np.ndarray) -> np.ndarray:
        return vectors if self._metric is None else self._metric(vectors)

    def left_out(self, vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """(n, artists - 1): every picture's similarities to a catalogue that its artist is not in."""
        found = np.zeros((len(vectors), len(self.prototypes) - 1))
        for artist in np.unique(labels):
            others = [spread for place, spread in enumerate(self._spreads) if place != artist]
            without = Compared(np.delete(self.prototypes, artist, axis=0), others)
            found[labels == artist] = without.similarities(vectors[labels == artist])
        return found


def similarities(vectors: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
    """Centred cosines (n, artists)."""
    centre = prototypes.mean(axis=0) if len(prototypes) >= CENTRED else np.zeros(prototypes.shape[1])
    first, second = vectors - centre, prototypes - centre
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)
    return np.divide(first @ second.T, lengths, out=np.zeros_like(lengths), where=lengths > 1e-12)


def means(vectors: np.ndarray, labels: np.ndarray, artists: int) -> np.ndarray:
    """Prototypes (artists, d) of pictures (n, d)."""
    return np.stack([vectors[labels == artist].mean(axis=0) for artist in range(artists)])


def judged(vectors: np.ndarray, labels: np.ndarray, compared: Compared) -> dict[str, float]:
    """Ranks of the right artist, and whether pictures of artists in the catalogue are told from others'."""
    known, strange = compared.similarities(vectors), compared.left_out(vectors, labels)
    places = ranking.ranks(labels, known)
    return {
        **{f"top_{k}": ranking.top_k(places, k) for k in (1, 3, 5)}, "mrr": ranking.mean_reciprocal_rank(places),
        "open_set_auroc": ranking.open_set_auroc(known.max(axis=1), strange.max(axis=1)),
    }  # fmt: skip


def judged_by_pictures(
    vectors: np.ndarray, labels: np.ndarray, gallery: np.ndarray, of_gallery: np.ndarray, k: int = 10
) -> dict[str, float]:
    """mAP@k and Recall@k (is a picture of the right artist among the first k?) of a gallery of pictures, centred."""
    centre = gallery.mean(axis=0)
    first, second = vectors - centre, gallery - centre
    cosines = first @ second.T / np.linalg.norm(first, axis=1)[:, None] / np.linalg.norm(second, axis=1)
    relevant = labels[:, None] == of_gallery
    best = ranking.ranks(
        np.zeros(len(labels), int),
        np.concatenate([np.where(relevant, cosines, -2).max(axis=1)[:, None], np.where(relevant, -2, cosines)], axis=1),
    )
    return {
        f"map_{k}": ranking.mean_average_precision(relevant, cosines, k), f"recall_{k}": ranking.top_k(best, k),
        "nearest_1": float((best == 1).mean()),
    }  # fmt: skip


def _with_none(values: np.ndarray, none: float) -> np.ndarray:
    return np.concatenate([values, np.full((len(values), 1), none)], axis=1)
