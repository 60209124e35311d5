"""Attacks on numbers that are known: chance is chance, and a model that knows its members gives them away."""

import numpy as np
import pytest

from tffapps.audit import membership
from tffapps.audit.membership import Reference, Seen
from tffapps.errors import UserError


def seen(probability, labels=None):
    """What a model of two classes gives the true one."""
    probability = np.asarray(probability, np.float64)
    labels = np.zeros(len(probability), int) if labels is None else np.asarray(labels)
    both = np.where(labels[:, None] == [0, 1], probability[:, None], 1 - probability[:, None])
    return Seen(labels, both)


def test_members_found_at_a_rate_of_false_alarms():
    member = np.repeat([1, 0], [4, 200])
    scores = np.concatenate([[300, 198.5, 196.5, 5], np.arange(200)])
    assert membership.found_at(member, scores) == 0.5  # two false alarms are allowed: the threshold is 197
    assert membership.found_at(member[:104], scores[:104]) == 0.75  # one of 100 is: it is 98
    assert np.isnan(membership.found_at(np.ones(3), np.arange(3)))


def test_the_likelihood_goes_by_the_class():
    """φ of 0.9 is 2.197: three times the 0.732 of 0.675. Easy classes have large φ of their own."""
    reference = Reference(np.array([2.0, -1.0]), np.array([1.0, 0.5]))
    above = reference.above(seen([0.9, 0.5], [0, 1]))
    np.testing.assert_allclose(above, [0.1972, 2.0], atol=1e-3)
    few = Reference.of(seen([0.5] * 6 + [0.9] * 2, [0] * 6 + [1] * 2))
    assert few.means[0] == 0 and few.means[1] == pytest.approx(2.1972 / 4, abs=1e-3)  # too few of it: that of all


def test_chance_and_knowledge():
    random = np.random.default_rng(0)
    same = [seen(random.uniform(0.3, 0.9, 150), random.integers(0, 2, 150)) for _ in range(2)]
    for found in membership.attacks(*same):
        assert found.auc.low < 0.5 < found.auc.high and not found.above_chance and found.found.estimate < 0.1
    for found in membership.attacks(seen(random.uniform(0.8, 1, 150)), seen(random.uniform(0.2, 0.9, 150))):
        assert found.above_chance and found.auc.low > 0.75 and found.found.estimate > 0.3
    with pytest.raises(UserError, match="only 3 images that it was trained on"):
        membership.attacks(seen([0.5] * 3), same[1])
