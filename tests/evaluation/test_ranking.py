"""Ranked answers and scores by client, by hand and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from tffapps.evaluation.clients import per_client, spread
from tffapps.evaluation.ranking import mean_average_precision, mean_reciprocal_rank, open_set_auroc, ranks, top_k

SCORES = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.4, 0.2]])
LABELS = np.array([0, 2, 1, 0])


def test_ranks_by_hand():
    places = ranks(LABELS, SCORES)
    assert places.tolist() == [1, 3, 2, 2]  # the last ties with another
    assert [top_k(places, k) for k in (1, 2, 3)] == [1 / 4, 3 / 4, 1]
    assert mean_reciprocal_rank(places) == pytest.approx((1 + 1 / 3 + 1 / 2 + 1 / 2) / 4)
    with pytest.raises(ValueError, match="the first 0"):
        top_k(places, 0)


def test_top_k_as_scikit_learn():
    random = np.random.default_rng(0)
    labels, scores = random.integers(8, size=300), random.random((300, 8))
    for k in (1, 3, 5):
        assert top_k(ranks(labels, scores), k) == pytest.approx(metrics.top_k_accuracy_score(labels, scores, k=k))


def test_mean_average_precision_by_hand():
    scores = np.array([[4.0, 3, 2, 1]] * 3)
    relevant = np.array([[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    # first query 1 and 2/3, of two; the second 1/4; the third has no right answer
    assert mean_average_precision(relevant, scores, 4) == pytest.approx((5 / 6 + 1 / 4) / 2)
    assert mean_average_precision(relevant, scores, 2) == pytest.approx((1 / 2 + 0) / 2)
    assert mean_average_precision(relevant, scores, 1) == pytest.approx(1 / 2)
    assert mean_average_precision([[1, 0]], np.ones((1, 2)), 2) == pytest.approx(1 / 2)  # a tie
    assert np.isnan(mean_average_precision(relevant[2:], scores[2:], 2))


def test_mean_average_precision_as_scikit_learn():
    random = np.random.default_rng(1)
    relevant, scores = random.random((20, 12)) < 0.3, random.random((20, 12))
    relevant[:, 0] = True
    theirs = np.mean([metrics.average_precision_score(*query) for query in zip(relevant, scores)])
    assert mean_average_precision(relevant, scores, 12) == pytest.approx(theirs)


def test_open_set():
    assert open_set_auroc(np.array([0.9, 0.5]), np.array([0.5, 0.1])) == pytest.approx(3.5 / 4)
    assert np.isnan(open_set_auroc(np.array([]), np.array([0.5])))


def test_scores_by_client():
    labels = np.array([0, 1, 0, 1, 1])
    predicted = np.array([0, 0, 0, 1, 1])
    clients, owners = np.array(["b", "b", "a", "a", "a"]), np.array([1, 1, 2, 2, 3])
    table = per_client(labels, np.eye(2)[predicted], owners, clients, "accuracy")
    assert table.to_dict("list") == {"client": ["a", "b"], "images": [3, 2], "subjects": [2, 1], "score": [1, 0.5]}
    found = spread(table)
    assert (found.clients, found.mean, found.deviation) == (2, 0.75, 0.25)
    assert (found.worst, found.lowest, found.highest) == ("b", 0.5, 1.0)
    f1 = per_client(labels, np.eye(2)[predicted], owners, clients, "macro_f1")["score"]
    assert f1.tolist() == pytest.approx([1, 1 / 3])
    own = per_client(labels, np.eye(2)[predicted], owners, clients, lambda labels, _: float(len(labels)))["score"]
    assert own.tolist() == [3, 2]
    with pytest.raises(ValueError, match="metric 'f2': expected one of accuracy, precision"):
        per_client(labels, np.eye(2)[predicted], owners, clients, "f2")


def test_undefined_scores_are_left_out():
    table = pd.DataFrame({"client": ["a", "b"], "score": [float("nan"), 0.5]})
    assert (spread(table).clients, spread(table).worst) == (1, "b")
    with pytest.raises(ValueError, match="undefined for every client"):
        spread(table[:1])
