"""Predictions whose true scores are known: subjects with one to four images, which are alike."""

from __future__ import annotations

import numpy as np
from scipy import stats

from tffapps.evaluation.subjects import Run

SHARES = np.array([0.5, 0.3, 0.2])  # of the classes
LEVEL, SUBJECT, METHOD = 0.8, 1.0, 0.7  # how good; how far subjects differ, and methods within one, in probits
# An image is a hit with this probability, whatever its class; a miss goes to one of the other two.
HIT = stats.norm.cdf(LEVEL / np.sqrt(1 + SUBJECT**2 + METHOD**2))
_PREDICTED = SHARES * HIT + (1 - SHARES) * (1 - HIT) / 2
TRUE = {"accuracy": HIT, "macro_f1": np.mean(2 * SHARES * HIT / (SHARES + _PREDICTED))}


def pair(random: np.random.Generator, subjects: int = 200) -> tuple[Run, Run]:
    """Two methods, equally good."""
    of_image = np.repeat(np.arange(subjects), random.integers(1, 5, subjects))
    labels = random.choice(3, subjects, p=SHARES)[of_image]
    ease = LEVEL + SUBJECT * random.normal(size=subjects)
    images = np.arange(len(labels))
    runs = []
    for _ in range(2):
        ability = (ease + METHOD * random.normal(size=subjects))[of_image]
        hit = random.normal(size=len(labels)) < ability
        other = (labels + random.integers(1, 3, len(labels))) % 3
        runs.append(Run(labels, np.eye(3)[np.where(hit, labels, other)], of_image, images))
    return runs[0], runs[1]


def splits(random: np.random.Generator, first: Run, second: Run, *, share: float = 0.3, count: int = 5):
    """The runs of both methods in `count` random splits, each of which tests this share of the subjects."""
    total = int(first.subjects.max()) + 1
    tested = round(share * total)
    both: tuple[list[Run], list[Run]] = ([], [])
    for number in range(count):
        rows = np.isin(first.subjects, random.permutation(total)[:tested])
        for run, runs in zip((first, second), both):
            runs.append(
                Run(
                    run.labels[rows],
                    run.probabilities[rows],
                    run.subjects[rows],
                    run.images[rows],
                    split=str(number),
                    train_subjects=total - tested,
                )
            )
    return both
