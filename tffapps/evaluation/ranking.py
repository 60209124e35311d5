"""Scores of ranked answers: is the right one among the first, and is an unknown one told from the known?"""

import numpy as np
from sklearn import metrics


def ranks(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(n,) the place of the right answer, 1 for the best, of scores (n, answers).

    Equal scores rank it last among them: a model that scores all alike finds nothing.
    """
    right = scores[np.arange(len(labels)), labels]
    return (scores >= right[:, None]).sum(axis=1)


def top_k(places: np.ndarray, k: int) -> float:
    """The share of ranks (n,) within the first k."""
    _check(k)
    return float((places <= k).mean())


def mean_reciprocal_rank(places: np.ndarray) -> float:
    """The mean of 1 / rank."""
    return float((1 / places).mean())


def mean_average_precision(relevant: np.ndarray, scores: np.ndarray, k: int) -> float:
    """mAP@k of scores (queries, answers), where several answers can be right: relevant (queries, answers).

    A query's average precision is the sum of the precisions at its right answers within the first k, divided by k or
    the number of right answers, the smaller. Queries without any are left out; NaN if none has any. Of equal scores,
    the wrong answers come first.
    """
    _check(k)
    relevant = np.asarray(relevant, bool)
    some = relevant.any(axis=1)
    if not some.any():
        return float("nan")
    relevant, scores = relevant[some], scores[some]
    order = np.lexsort((relevant, -scores), axis=1)[:, :k]
    found = np.take_along_axis(relevant, order, axis=1)
    precision = found.cumsum(axis=1) / np.arange(1, found.shape[1] + 1)
    return float(((precision * found).sum(axis=1) / np.minimum(k, relevant.sum(axis=1))).mean())


def open_set_auroc(known: np.ndarray, unknown: np.ndarray) -> float:
    """How often an image of a known class scores above one of an unknown class; a tie is half. NaN without either."""
    if not len(known) or not len(unknown):
        return float("nan")
    truth = np.repeat([1, 0], [len(known), len(unknown)])
    return float(metrics.roc_auc_score(truth, np.concatenate([known, unknown])))


def _check(k: int) -> None:
    if k < 1:
        raise ValueError(f"the first {k}: expected 1 or more")
