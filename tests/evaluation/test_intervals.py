"""Bootstrap over subjects: by hand, against SciPy and scikit-learn, and how often it covers the truth."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from tests.evaluation.simulated import TRUE, pair, splits
from tffapps.evaluation import classification, subjects
from tffapps.evaluation.intervals import METHODS, interval, interval_of_runs, limits
from tffapps.evaluation.metrics import NAMED
from tffapps.evaluation.paired import compare
from tffapps.evaluation.subjects import Run

PLAIN = {  # the same metrics, of whole rows
    "accuracy": lambda labels, probabilities: metrics.accuracy_score(labels, probabilities.argmax(1)),
    "macro_f1": lambda labels, probabilities: metrics.f1_score(
        labels, probabilities.argmax(1), average="macro", zero_division=0
    ),
}


def hits(*right: bool, **more) -> Run:
    """One subject an image, all of class 0."""
    return Run(np.zeros(len(right), int), np.eye(2)[[int(not each) for each in right]], np.arange(len(right)), **more)


def test_sums_of_each_subject():
    labels, predicted = np.array([0, 1, 1, 2]), np.array([0, 1, 0, 0])
    run = Run(labels, np.eye(3)[predicted], np.array([0, 0, 1, 1]))
    sums = subjects.sums_of(NAMED["macro_f1"], run, np.array([0, 0, 1, 1]), 2)
    assert sums.tolist() == [[1, 1, 0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 0, 1, 1, 2, 0, 0]]
    assert NAMED["accuracy"].of(sums).tolist() == [1, 0]
    # together F1 2/4, 2/3 and 0; the first subject has no image of class 2, so that it has two classes
    assert NAMED["macro_f1"].of(sums.sum(0)) == pytest.approx((1 / 2 + 2 / 3) / 3)
    assert NAMED["macro_f1"].of(sums).tolist() == [1, 0]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("ties", [False, True])
def test_every_metric_is_that_of_the_images_drawn(classes, ties):
    """A weight of 2 is the image twice, one of 0 is no image; scikit-learn's numbers, by way of `scores`."""
    random = np.random.default_rng(classes)
    labels = random.integers(classes, size=60)
    probabilities = random.dirichlet(np.ones(classes), 60)
    if ties:
        probabilities = np.round(probabilities, 1)
    run = Run(labels, probabilities, np.arange(60))
    weights = random.integers(3, size=(3, 60)).astype(float)
    for name in classification.SCORES:
        found = subjects.Scores([run], name).each(weights)[:, 0]
        drawn = [np.repeat(np.arange(60), weight.astype(int)) for weight in weights]
        wanted = [classification.scores(labels[rows], probabilities[rows])[name] for rows in drawn]
        assert found == pytest.approx(wanted), name


def test_two_judges_of_an_image_are_one_image():
    """Both right on the first, one of two on the second: 3/4, and no less uncertain than two images."""
    images, judged = np.array(["a", "b", "a", "b"]), np.array([0, 0, 0, 1])
    run = Run(np.zeros(4, int), np.eye(2)[judged], images, images)
    once = Run(np.zeros(2, int), np.eye(2)[[0, 1]], images[:2], images[:2])
    found = interval_of_runs([run], "accuracy")
    assert (found.estimate, found.subjects, found.low, found.high) == (0.75, 2, 0.5, 1)
    assert compare([run], [once], "accuracy").difference == 0.25


def test_two_subjects_by_hand():
    run = hits(True, False)  # draws are 0, 1/2 and 1 with 1/4, 1/2 and 1/4
    found = interval(run.labels, run.probabilities, run.subjects, "accuracy")
    assert (found.estimate, found.low, found.high, found.draws, found.subjects) == (0.5, 0, 1, 2000, 2)
    narrow = interval(run.labels, run.probabilities, run.subjects, "accuracy", level=0.3)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_all_images_of_a_subject_are_drawn_together():
    labels, probabilities = np.zeros(8, int), np.eye(2)[[0, 0, 0, 0, 1, 1, 1, 1]]
    found = interval(labels, probabilities, np.array(["a"] * 4 + ["b"] * 4), "accuracy")
    assert (found.low, found.high) == (0, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("metric", TRUE)
def test_counts_and_rows_give_the_same(metric, method):
    random = np.random.default_rng(1)
    runs, _ = splits(random, *pair(random, 30), count=2)
    fast = interval_of_runs(runs, metric, method=method, draws=60, seed=3)
    slow = interval_of_runs(runs, PLAIN[metric], method=method, draws=60, seed=3)
    assert fast.estimate == pytest.approx(np.mean([PLAIN[metric](run.labels, run.probabilities) for run in runs]))
    assert (fast.estimate, fast.low, fast.high) == pytest.approx((slow.estimate, slow.low, slow.high))
    assert fast.low < fast.estimate < fast.high


@pytest.mark.parametrize("method", METHODS)
def test_as_scipy_where_each_subject_has_one_image(method):
    right = np.arange(80) < 70
    run = hits(*right)
    found = interval(run.labels, run.probabilities, run.subjects, "accuracy", method=method, draws=20_000)
    theirs = stats.bootstrap((right,), np.mean, method=method, n_resamples=20_000, random_state=1).confidence_interval
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.0126)  # one image of 80


def test_bca_by_hand():
    drawn = np.random.default_rng(0).exponential(size=200_000)
    low, high, _ = limits(drawn, 1.0, None, level=0.95)
    assert (low, high) == pytest.approx((-np.log(0.975), -np.log(0.025)), rel=0.03)
    # 1 - 1/e of the draws lie below the estimate: bias 0.3375. Jackknife values -3 (once) and 1 (three times): the
    # distances to their mean are 3, -1, -1 and -1, so that the acceleration is 24 / (6 * 12^1.5) = 0.09623
    ends = [stats.norm.cdf(0.3375 + z / (1 - 0.09623 * z)) for z in (0.3375 - 1.96, 0.3375 + 1.96)]
    expected = [-np.log(1 - end) for end in ends]
    low, high, _ = limits(drawn, 1.0, np.array([-3.0, 1, 1, 1]), level=0.95)
    assert (low, high) == pytest.approx(expected, rel=0.05)


def test_the_same_subjects_in_two_splits_are_no_new_evidence():
    run = hits(*np.arange(40) % 4 > 0)
    one = interval_of_runs([run], "accuracy")
    twin = Run(run.labels, run.probabilities, run.subjects, split="b")
    two = interval_of_runs([run, twin], "accuracy")
    assert (two.low, two.high) == pytest.approx((one.low, one.high))
    other = Run(run.labels, run.probabilities, run.subjects + 40, split="b")
    assert interval_of_runs([run, other], "accuracy").high < one.high


def test_seeds_are_told_beside():
    runs = [
        hits(True, True, split="a"),
        hits(True, False, split="a", seed=1),  # 1 and 1/2: squares 1/8
        hits(False, False, split="b"),
        hits(True, False, split="b", seed=1),
        hits(True, False, split="b", seed=2),  # 0, 1/2 and 1/2: squares 1/6
    ]
    found = interval_of_runs(runs, "accuracy")
    assert found.estimate == pytest.approx((3 / 4 + 1 / 3) / 2)
    assert found.seed_spread == pytest.approx(np.sqrt((1 / 8 + 1 / 6) / 3))
    assert np.isnan(interval_of_runs(runs[:1], "accuracy").seed_spread)


def test_draws_without_a_class_are_left_out():
    labels = np.array([0, 0, 0, 1])
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])

    def area(labels, probabilities):
        return metrics.roc_auc_score(labels, probabilities[:, 1]) if len(set(labels)) > 1 else float("nan")

    found = interval(labels, probabilities, np.arange(4), area, draws=1000)
    # (3/4)^4 lack class 1, (1/4)^4 lack class 0
    assert found.draws == pytest.approx(1000 * (1 - (3 / 4) ** 4 - (1 / 4) ** 4), abs=60)
    assert 0 <= found.low <= found.estimate <= found.high <= 1


def test_what_is_refused():
    with pytest.raises(ValueError, match="1 subject"):
        interval(np.array([0, 0]), np.eye(2), np.array([5, 5]), "accuracy")
    with pytest.raises(ValueError, match="'f2': expected one of accuracy, precision"):
        interval(np.array([0, 0]), np.eye(2), np.arange(2), "f2")
    with pytest.raises(ValueError, match="'basic': expected one of percentile, bca"):
        interval(np.array([0, 0]), np.eye(2), np.arange(2), "accuracy", method="basic")
    with pytest.raises(ValueError, match="from 0 to 2: expected 0 to 1"):
        Run(np.array([0, 2]), np.eye(2), np.arange(2))
    with pytest.raises(ValueError, match="3 subjects"):
        Run(np.array([0, 1]), np.eye(2), np.arange(3))
    with pytest.raises(ValueError, match="not finite"):
        Run(np.array([0, 1]), np.eye(2) * np.nan, np.arange(2))


@pytest.mark.parametrize("metric", TRUE)
def test_many_images_take_no_time(metric):
    random = np.random.default_rng(0)
    labels, probabilities = random.integers(10, size=10_000), random.random((10_000, 10))
    start = time.process_time()
    interval(labels, probabilities, random.integers(4000, size=10_000), metric)
    assert time.process_time() - start < 3  # 0.3 s on an idle core


def covered(metric: str, count: int, *, several: bool, method: str = "percentile") -> float:
    inside = 0
    for number in range(count):
        random = np.random.default_rng(number)
        first, second = pair(random)
        runs = splits(random, first, second)[0] if several else [first]
        found = interval_of_runs(runs, metric, method=method, draws=1000, seed=number)
        inside += found.low <= TRUE[metric] <= found.high
    return inside / count


@pytest.mark.parametrize("several", [False, True], ids=["one split", "five splits"])
@pytest.mark.parametrize("metric", TRUE)
def test_intervals_cover_the_truth_in_a_few(metric, several):
    assert 0.90 <= covered(metric, 200, several=several) <= 0.99  # 95 % within three standard errors


def test_drawing_images_would_not_cover():
    """The simulated subjects' images are alike enough for the tests around this one to tell."""
    inside = 0
    for number in range(200):
        run, _ = pair(np.random.default_rng(number))
        found = interval(run.labels, run.probabilities, run.images, "accuracy", draws=500, seed=number)
        inside += found.low <= TRUE["accuracy"] <= found.high
    assert inside / 200 < 0.92


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("several", [False, True], ids=["one split", "five splits"])
@pytest.mark.parametrize("metric", TRUE)
def test_intervals_cover_the_truth(metric, several, method):
    assert 0.93 <= covered(metric, 1000, several=several, method=method) <= 0.97
