"""Membership inference: can images that a model was trained on be told from others by what it says of them?

Two attacks, each a score that is higher for a member:
  loss         the model's loss of the image, negative (Yeom et al. 2018)
  likelihood   φ = log(p / (1 − p)) of the true class's probability p, as far above what it is for images of that class
               that were not trained on, in standard deviations: LiRA (Carlini et al. 2022) without shadow models, the
               other distribution being that of half of the non-members, which are then not judged

Scores are judged by the area under the ROC curve (0.5 is chance) and by the share of members that is found at 1 % of
false alarms (0.01 is chance). Both have intervals by bootstrap over images. Where members and non-members differ in
more than training, other patients say, the attack is above chance for a model that has seen neither: the same attack on
the model that the run began with is told beside it.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from tffapps.errors import UserError
from tffapps.evaluation import intervals

ATTACKS = ("loss", "likelihood")
FALSE_ALARMS = 0.01
LEAST = 10  # images on either side
_SMALLEST = 1e-7
_LEAST_OF_CLASS = 5  # non-members of a class that have a distribution of their own


class Seen(NamedTuple):
    """What a model says of some images."""

    labels: np.ndarray  # (n,)
    probabilities: np.ndarray  # (n, classes)


@dataclasses.dataclass(frozen=True)
class Found:
    """How well an attack tells members."""

    attack: str
    members: int
    others: int
    auc: intervals.Interval
    found: intervals.Interval  # share of members at FALSE_ALARMS

    @property
    def above_chance(self) -> bool:
        return self.auc.low > 0.5


def attacks(members: Seen, others: Seen, seed: int = 0) -> list[Found]:
    """Every attack on the same model."""
    for name, seen in (("trained on", members), ("not trained on", others)):
        if len(seen.labels) < LEAST:
            raise UserError(f"only {len(seen.labels)} images that it was {name}; an audit needs {LEAST} or more")
    order = np.random.default_rng(seed).permutation(len(others.labels))
    half = len(order) // 2
    known, judged = (Seen(others.labels[part], others.probabilities[part]) for part in (order[:half], order[half:]))
    reference = Reference.of(known)
    return [
        _judged("loss", -losses(members), -losses(others)),
        _judged("likelihood", reference.above(members), reference.above(judged)),
    ]


def losses(seen: Seen) -> np.ndarray:
    return -np.log(np.maximum(_of_true_class(seen), _SMALLEST))


def confidence(seen: Seen) -> np.ndarray:
    """φ, which is about normally distributed."""
    p = np.clip(_of_true_class(seen).astype(np.float64), _SMALLEST, 1 - _SMALLEST)
    return np.log(p) - np.log1p(-p)


@dataclasses.dataclass(frozen=True)
class Reference:
    """Mean and deviation of φ of non-members, by class."""

    means: np.ndarray  # (classes,)
    deviations: np.ndarray

    @classmethod
    def of(cls, seen: Seen) -> Reference:
        values, classes = confidence(seen), seen.probabilities.shape[1]
        means, deviations = np.full(classes, values.mean()), np.full(classes, values.std())
        for code in range(classes):
            own = values[seen.labels == code]
            if len(own) >= _LEAST_OF_CLASS:
                means[code], deviations[code] = own.mean(), own.std()
        return cls(means, np.maximum(deviations, 1e-3))

    def above(self, seen: Seen) -> np.ndarray:
        return (confidence(seen) - self.means[seen.labels]) / self.deviations[seen.labels]


def _of_true_class(seen: Seen) -> np.ndarray:
    return seen.probabilities[np.arange(len(seen.labels)), seen.labels]


def _judged(attack: str, members: np.ndarray, others: np.ndarray) -> Found:
    is_member = np.repeat([1, 0], [len(members), len(others)])
    scores = np.concatenate([members, others])
    both = np.stack([-scores, scores], axis=1)  # as the "probabilities" of two classes: their order is all that counts
    images = np.arange(len(scores))
    auc = intervals.interval(is_member, both, images, "auroc")
    found = intervals.interval(is_member, both, images, lambda member, pair: found_at(member, pair[:, 1]), draws=500)
    return Found(attack, len(members), len(others), auc, found)


def found_at(is_member: np.ndarray, scores: np.ndarray, false_alarms: float = FALSE_ALARMS) -> float:
    """The share of members above the lowest threshold that no more than so many of the others are above."""
    others = np.sort(scores[is_member == 0])[::-1]
    if not len(others) or not (is_member == 1).any():
        return float("nan")
    threshold = others[int(false_alarms * len(others))]
    return float((scores[is_member == 1] > threshold).mean())
