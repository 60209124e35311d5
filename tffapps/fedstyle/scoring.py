"""How near a picture is to artists' prototypes, and how sure that is, with "none of these" as one of the answers.

Cosines of embeddings lie close together because all embeddings share a direction: pictures and prototypes are centred
at the mean of the prototypes first, where there are `CENTRED` of them. "None of these" has a similarity of its own,
and probabilities are the softmax of all similarities over a temperature. Both numbers are fitted on pictures of
enrolled artists that no prototype was made of: once with their artist in the catalogue, once without, when "none of
these" is right. Not fitted, probabilities mean nothing, and are not to be shown as if they did.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import optimize, special

from tffapps import UserError
from tffapps.evaluation import ranking

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
    def fit(cls, vectors: np.ndarray, labels: np.ndarray, prototypes: np.ndarray) -> Scoring:
        """Of pictures (n, d), the places (n,) of their artists among the prototypes (artists, d)."""
        if len(prototypes) < LEAST_ARTISTS or len(vectors) < LEAST_PICTURES:
            raise UserError(
                f"{len(vectors)} pictures, {len(prototypes)} artists: a fit needs {LEAST_PICTURES} and {LEAST_ARTISTS}"
            )
        known, strange = similarities(vectors, prototypes), left_out(vectors, labels, prototypes)

        def loss(values: np.ndarray) -> float:
            temperature, none = np.exp(values[0]), values[1]
            first = special.log_softmax(_with_none(known, none) / temperature, axis=1)
            second = special.log_softmax(_with_none(strange, none) / temperature, axis=1)
            return -float(first[np.arange(len(labels)), labels].mean() + second[:, -1].mean())

        found = optimize.minimize(loss, [np.log(cls.temperature), cls.none], method="Nelder-Mead")
        return cls(float(np.exp(np.clip(found.x[0], -6, 3))), float(np.clip(found.x[1], -2, 2)), len(vectors))


def similarities(vectors: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
    """Centred cosines (n, artists)."""
    centre = prototypes.mean(axis=0) if len(prototypes) >= CENTRED else np.zeros(prototypes.shape[1])
    first, second = vectors - centre, prototypes - centre
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)
    return np.divide(first @ second.T, lengths, out=np.zeros_like(lengths), where=lengths > 1e-12)


def means(vectors: np.ndarray, labels: np.ndarray, artists: int) -> np.ndarray:
    """Prototypes (artists, d) of pictures (n, d)."""
    return np.stack([vectors[labels == artist].mean(axis=0) for artist in range(artists)])


def left_out(vectors: np.ndarray, labels: np.ndarray, prototypes: np.ndarray) -> np.ndarray:
    """(n, artists - 1): every picture's similarities to a catalogue that its artist is not in."""
    found = np.zeros((len(vectors), len(prototypes) - 1))
    for artist in np.unique(labels):
        found[labels == artist] = similarities(vectors[labels == artist], np.delete(prototypes, artist, axis=0))
    return found


def judged(vectors: np.ndarray, labels: np.ndarray, prototypes: np.ndarray) -> dict[str, float]:
    """Ranks of the right artist, and whether pictures of artists in the catalogue are told from others'."""
    known, strange = similarities(vectors, prototypes), left_out(vectors, labels, prototypes)
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
