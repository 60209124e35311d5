"""Paired comparisons: by hand, against SciPy and scikit-learn, and how often a true null is rejected."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from tests.evaluation.simulated import TRUE, pair, splits
from tests.evaluation.test_intervals import PLAIN, hits
from tffapps.evaluation.metrics import NAMED
from tffapps.evaluation.paired import CORRECTED_T, SWAP, bootstrap_interval, compare, corrected_t, holm, verdict
from tffapps.evaluation.subjects import Run


def named(*right: bool, **more) -> Run:
    return hits(*right, images=np.array([f"{place}.png" for place in range(len(right))]), **more)


def test_three_subjects_by_hand():
    found = compare([named(True, True, True)], [named(False, False, False)], "accuracy", draws=20_000)
    assert (found.difference, found.low, found.high, found.rule, found.splits, found.subjects) == (1, 1, 1, SWAP, 1, 3)
    assert found.p == pytest.approx(2 / 8, abs=0.02)  # all or none of three swapped


def test_as_the_sign_test_where_each_subject_has_one_image():
    ours, theirs = np.arange(40) < 34, np.arange(40) % 2 == 0  # 17 won, 3 lost
    found = compare([named(*ours)], [named(*theirs)], "accuracy", draws=50_000)
    assert found.difference == pytest.approx(14 / 40)
    assert found.p == pytest.approx(stats.binomtest(17, 20).pvalue, abs=0.001)


def test_a_subject_is_swapped_as_a_whole():
    images = np.arange(8)
    wins = Run(np.zeros(8, int), np.eye(2)[np.zeros(8, int)], np.repeat([0, 1], 4), images)
    losses = dataclasses.replace(wins, probabilities=np.eye(2)[np.ones(8, int)])
    assert compare([wins], [losses], "accuracy").p == pytest.approx(2 / 4, abs=0.04)


def test_the_same_predictions_are_level():
    run = named(True, False, True)
    found = compare([run], [run], "macro_f1")
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


@pytest.mark.parametrize("metric", TRUE)
def test_counts_and_rows_give_the_same(metric):
    random = np.random.default_rng(2)
    ours, theirs = splits(random, *pair(random, 30), count=2)
    fast = compare(ours, theirs, metric, draws=60, rule=SWAP)
    slow = compare(ours, theirs, PLAIN[metric], draws=60, rule=SWAP)
    assert dataclasses.astuple(fast) == pytest.approx(dataclasses.astuple(slow))
    assert fast.low < fast.difference < fast.high
    assert bootstrap_interval(ours, theirs, metric, draws=60) == (fast.low, fast.high)


@pytest.mark.parametrize("digits", [0, 1, 6])  # few: many scores are equal
@pytest.mark.parametrize("name", ["auroc", "auprc"])
def test_areas_of_many_draws_at_once_are_those_of_each(name, digits):
    rng = np.random.default_rng(digits)
    labels, drawn = rng.integers(0, 3, 30), rng.random((50, 30, 3)).round(digits)
    metric = NAMED[name]
    np.testing.assert_allclose(metric.of_many(labels, drawn), [metric(labels, one) for one in drawn], atol=1e-14)
    assert np.isnan(metric.of_many(np.zeros(30, int), drawn)).all()


def test_the_methods_in_the_other_order():
    ours, theirs = pair(np.random.default_rng(3))
    one, other = compare([ours], [theirs], "macro_f1"), compare([theirs], [ours], "macro_f1")
    assert (other.difference, other.p) == pytest.approx((-one.difference, one.p))
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))


def test_corrected_t_by_hand():
    # mean 0.2, variance 0.01 (1/3 + 1/2): t² = 4.8; with 2 degrees of freedom p = 1 - t / sqrt(2 + t²)
    low, high, p = corrected_t(np.array([0.1, 0.2, 0.3]), 0.5)
    assert p == pytest.approx(1 - np.sqrt(4.8 / 6.8))
    assert (low + high) / 2 == pytest.approx(0.2)
    assert (high - low) / 2 == pytest.approx(4.302653 * np.sqrt(0.01 * 5 / 6))
    plain = stats.ttest_1samp([0.1, 0.2, 0.3], 0)
    assert corrected_t(np.array([0.1, 0.2, 0.3]), 0.0)[2] == pytest.approx(plain.pvalue)


def test_which_rule_decides():
    ours = [named(True, True, True, True, split=split, train_subjects=8) for split in "abc"]
    theirs = [
        named(*right, split=split, train_subjects=8)
        for split, right in zip("abc", ([False, True, True, True], [False] * 2 + [True] * 2, [False] * 3 + [True]))
    ]
    found = compare(ours, theirs, "accuracy")  # 1/4, 2/4 and 3/4, tested/trained 4/8
    assert (found.rule, found.splits, found.subjects) == (CORRECTED_T, 3, 4)
    assert (found.low, found.high, found.p) == pytest.approx(corrected_t(np.array([0.25, 0.5, 0.75]), 0.5))
    folds = [
        [dataclasses.replace(run, subjects=run.subjects + 4 * place) for place, run in enumerate(runs)]
        for runs in (ours, theirs)
    ]
    assert compare(folds[0], folds[1], "accuracy").rule == SWAP  # no subject is tested twice
    assert compare(ours[:1], theirs[:1], "accuracy").rule == SWAP
    assert compare(ours, ours, "accuracy").rule == SWAP  # the differences are equal: they tell no variance
    unknown = [[dataclasses.replace(run, train_subjects=0) for run in runs] for runs in (ours, theirs)]
    with pytest.raises(ValueError, match="split 'a': corrected resampled t needs the number of its training subjects"):
        compare(unknown[0], unknown[1], "accuracy")
    with pytest.raises(ValueError, match="needs 2 or more splits"):
        compare(ours[:1], theirs[:1], "accuracy", rule=CORRECTED_T)


def test_seeds_are_averaged_and_are_no_splits():
    ours = [named(True, True, seed=0), named(True, False, seed=1)]
    theirs = [named(False, False, seed=1), named(True, False, seed=0)]  # in another order
    found = compare(ours, theirs, "accuracy")
    assert (found.difference, found.splits, found.rule) == (0.5, 1, SWAP)


def test_images_are_matched_by_name():
    ours, theirs = named(True, False, False), named(False, True, False)
    turned = Run(theirs.labels[::-1], theirs.probabilities[::-1], theirs.subjects[::-1], theirs.images[::-1])
    assert compare([ours], [turned], "accuracy") == compare([ours], [theirs], "accuracy")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"images": np.array(["0.png", "1.png", "9.png"])}, "image '2.png' was tested with the first method alone"),
        ({"images": np.array(["0.png", "1.png", "1.png"])}, "image '1.png' occurs twice"),
        ({"images": None}, "needs the images' names"),
        ({"labels": np.array([0, 1, 1])}, "image '1.png' has other labels"),
        ({"subjects": np.array([0, 1, 1])}, "image '2.png' has other subjects"),
        ({"probabilities": np.eye(3)}, "2 classes of the first method, 3 of the second"),
        ({"seed": 4}, "split '', seed 0: only the first method has a run of it"),
    ],
)
def test_other_images_are_refused(change, message):
    run = named(True, False, True)
    with pytest.raises(ValueError, match=message):
        compare([run], [dataclasses.replace(run, **change)], "accuracy")


def test_a_run_is_given_once():
    run = named(True, False)
    with pytest.raises(ValueError, match="the second method has two runs of split '', seed 0"):
        compare([run], [run, run], "accuracy")


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, float("nan"), 0.6]) == pytest.approx([1, float("nan"), 1], nan_ok=True)
    assert len(holm([])) == 0


def test_verdicts():
    assert verdict(0.1, 0.05) == "ahead"
    assert verdict(-0.1, 0.01) == "behind"
    assert [verdict(0.1, 0.051), verdict(0.1, float("nan")), verdict(0.0, 0.01)] == ["level"] * 3


RULES = {"one split": (False, SWAP), "five splits": (True, CORRECTED_T), "five splits, swapped": (True, SWAP)}


def rejected(metric: str, count: int, case: str) -> float:
    several, rule = RULES[case]
    found = 0
    for number in range(count):
        random = np.random.default_rng(number)
        ours, theirs = pair(random)
        if several:
            result = compare(*splits(random, ours, theirs), metric, draws=1000, seed=number, rule=rule)
        else:
            result = compare([ours], [theirs], metric, draws=1000, seed=number)
        assert result.rule == rule
        found += result.p <= 0.05
    return found / count


@pytest.mark.parametrize("case", RULES)
@pytest.mark.parametrize("metric", TRUE)
def test_a_true_null_is_rejected_seldom_in_a_few(metric, case):
    assert 0.004 <= rejected(metric, 200, case) <= 0.1  # 5 % within three standard errors


def test_an_uncorrected_t_would_reject_too_often():
    found = 0
    for number in range(200):
        random = np.random.default_rng(number)
        ours, theirs = splits(random, *pair(random))
        differences = [
            np.mean(a.probabilities.argmax(1) == a.labels) - np.mean(b.probabilities.argmax(1) == b.labels)
            for a, b in zip(ours, theirs)
        ]
        found += stats.ttest_1samp(differences, 0).pvalue <= 0.05
    assert found / 200 > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("case", RULES)
@pytest.mark.parametrize("metric", TRUE)
def test_a_true_null_is_rejected_seldom(metric, case):
    assert 0.03 <= rejected(metric, 1000, case) <= 0.07


def test_a_real_difference_is_found():
    """A fifth of the second method's hits taken away."""
    ours, theirs = pair(np.random.default_rng(5))
    lost = theirs.images % 5 == 0
    worse = np.where(lost[:, None], np.eye(3)[(theirs.labels + 1) % 3], theirs.probabilities)
    found = compare([ours], [dataclasses.replace(theirs, probabilities=worse)], "accuracy")
    assert found.low > 0 and verdict(found.difference, found.p) == "ahead"
