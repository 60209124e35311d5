"""Rivals that train nothing: where a picture lies in the frozen part of the network, among everybody's pictures.

neighbours   the nearest pictures, by cosine; how many of them vote is chosen on validation pictures, if there are any
prototypes   the nearest mean of an artist's pictures: what an artist could send once, without any round

Features are the means over the map that crosses the cut, centred at the mean of the gallery: the pictures that others
train with, public ones included. Neighbours compares with every single picture, which no artist has agreed to send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import special

from tffapps import Common, Predictions
from tffapps.data.pool import subjects_in
from tffapps.evaluation import evidence, identities
from tffapps.evaluation.evidence import Entry
from tffapps.fedstyle import COMPARISON, UNTRAINED
from tffapps.fedstyle.evaluators import scores
from tffapps.fedstyle.scoring import means

if TYPE_CHECKING:
    from tffapps.fedstyle.trials import Trials

VOTING = (1, 3, 5, 9, 15)
_TEMPERATURE = 0.1  # of prototypes' cosines: it changes no rank


def entries(trials: Trials, common: Common) -> list[Entry]:
    """Of the placement that trials are made for; none if --methods names none of them."""
    methods = [name for name in UNTRAINED if name in common.methods]
    return [_entry(trials, method, seed) for seed in common.seeds for method in methods]


def _entry(trials: Trials, method: str, seed: int) -> Entry:
    federation, pool = trials.placement.federation, trials.placement.federation.pool
    inputs = trials.inputs(federation.artists)
    initial = inputs.initial(seed)

    def features(rows: pd.DataFrame) -> np.ndarray:
        return inputs.located(initial.weights, list(rows.path))

    gallery, tested, validated = (
        pool.table[pool.table.split.isin(("train", "public"))],
        pool.part("test"),
        pool.part("val"),
    )
    vectors, labels = features(gallery), pool.codes(gallery)
    classes = len(pool.classes)

    def predicted(rows: pd.DataFrame, voting: int) -> Predictions:
        found = cosines(features(rows), vectors)
        if method == "prototypes":
            found = cosines(features(rows), means(vectors, labels, classes), vectors.mean(axis=0))
            return Predictions(pool.codes(rows), special.softmax(found / _TEMPERATURE, axis=1), rows)
        return Predictions(pool.codes(rows), votes(found, labels, classes, voting), rows)

    voting = VOTING[0]
    if method == "neighbours" and len(validated):
        voting = max(VOTING, key=lambda count: (scores(predicted(validated, count))["accuracy"], -count))
    found = predicted(tested, voting)
    labels_of = {
        "study": COMPARISON, "variant": "", "method": method, "artists": federation.artists,
        "clients": len(pool.clients), "seed": seed, **trials.placement.split.labels,
    }  # fmt: skip
    return evidence.untrained_entry(
        labels_of, identities.identified(found.images), found.labels, found.probabilities, pool.classes,
        trained=subjects_in(gallery),
    )  # fmt: skip


def cosines(first: np.ndarray, second: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """(n, m) of (n, d) and (m, d), centred at the mean of the second, or at `centre`."""
    centre = second.mean(axis=0) if centre is None else centre
    first, second = first - centre, second - centre
    lengths = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)
    return np.divide(first @ second.T, lengths, out=np.zeros_like(lengths), where=lengths > 1e-12)


def votes(similarities: np.ndarray, labels: np.ndarray, classes: int, voting: int) -> np.ndarray:
    """(n, classes) shares of the `voting` nearest; of equal ones, and beyond them, the nearest picture decides."""
    order = np.argsort(-similarities, axis=1)[:, :voting]
    found = np.stack([(labels[order] == place).sum(axis=1) for place in range(classes)], axis=1).astype(float)
    nearest = np.stack(
        [np.where(labels == place, similarities, -1.0).max(axis=1) for place in range(classes)], axis=1
    )  # fmt: skip
    found += 0.5 * (nearest + 1) / 2  # less than one vote
    return found / found.sum(axis=1, keepdims=True)
