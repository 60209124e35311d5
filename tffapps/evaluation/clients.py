"""A score client by client: a mean over all images hides whom a model fails."""

import dataclasses

import numpy as np
import pandas as pd

from tffapps.evaluation.subjects import Metric, named


@dataclasses.dataclass(frozen=True)
class Spread:
    """Of one score over clients, each counting once."""

    clients: int  # in which the score is defined
    mean: float
    deviation: float  # standard deviation, of these clients: they are all there are
    worst: str
    lowest: float
    highest: float


def per_client(
    labels: np.ndarray,
    probabilities: np.ndarray,
    of_subjects: np.ndarray,
    clients: np.ndarray,
    metric: Metric,
) -> pd.DataFrame:
    """client, images, subjects and score, one row a client in the order of their names."""
    function = named(metric)
    rows = []
    for client in np.unique(clients):
        own = np.asarray(clients) == client
        rows.append(
            {
                "client": str(client),
                "images": int(own.sum()),
                "subjects": len(np.unique(np.asarray(of_subjects)[own])),
                "score": float(function(np.asarray(labels)[own], np.asarray(probabilities)[own])),
            }
        )
    return pd.DataFrame(rows, columns=["client", "images", "subjects", "score"])


def spread(table: pd.DataFrame) -> Spread:
    """Of a table of `per_client`; the worst client has the lowest score, and of several the first name."""
    defined = table[table["score"].notna()]
    if not len(defined):
        raise ValueError("the score is undefined for every client")
    score = defined["score"].to_numpy()
    worst = str(defined["client"].iloc[int(score.argmin())])
    return Spread(len(score), float(score.mean()), float(score.std()), worst, float(score.min()), float(score.max()))
