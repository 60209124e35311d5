"""The rules against bad clients: numbers by hand, and what each stands up to."""

import numpy as np
import pytest
import tensorflow as tf

from tffapps.federated import by_rows, row_rules

FAR = 1e30  # its square is no float32

# (rule, clients, bad ones that it promises to stand up to)
PROMISES = {
    "median": (row_rules.median, 7, 3),
    "trimmed mean": (lambda rows: row_rules.trimmed_mean(rows, 2), 7, 2),
    "krum": (lambda rows: row_rules.krum(rows, 2), 7, 2),
    "multi-krum": (lambda rows: row_rules.multi_krum(rows, 2), 7, 2),
    "geometric median": (row_rules.geometric_median, 7, 3),
}


def honest(count: int) -> np.ndarray:
    return np.random.default_rng(3).uniform(1, 2, (count, 4)).astype(np.float32)


@pytest.mark.parametrize("name", PROMISES)
@pytest.mark.parametrize("sent", [FAR, -FAR, 100.0])
def test_breakdown_points(name, sent):
    """With as many bad clients as it promises the result is among the honest ones; with more it is the bad ones'."""
    rule, count, bad = PROMISES[name]
    rows = np.concatenate([honest(count - bad), np.full((bad, 4), sent, np.float32)])
    assert np.all((rule(rows) >= 0.99) & (rule(rows) <= 2.01))
    most = count // 2 + 1 if "median" in name else bad + 1
    if name == "krum":  # in their majority they are the nearest to each other
        most = count - bad
    rows = np.concatenate([honest(count - most), np.full((most, 4), sent, np.float32)])
    assert np.any(np.abs(rule(rows)) > 10)


def test_by_hand():
    rows = tf.constant([[1.0, 5.0], [2.0, -3.0], [9.0, 4.0], [4.0, 0.0]])
    assert row_rules.median(rows).numpy().tolist() == [3, 2] and row_rules.median(rows[:3]).numpy().tolist() == [2, 4]
    assert row_rules.trimmed_mean(rows, 1).numpy().tolist() == [3, 2]
    assert row_rules.trimmed_mean(rows, 0).numpy().tolist() == [4, 1.5]


def test_krum_by_hand():
    rows = tf.constant([[0.0], [1.0], [3.0], [4.5], [50.0]])
    # Each with its two nearest others (5 − 1 − 2): 1 + 9, 1 + 4, 2.25 + 4, 2.25 + 12.25, and the far one.
    assert row_rules.krum_scores(rows, 1).numpy() == pytest.approx([10, 5, 6.25, 14.5, 47**2 + 45.5**2])
    assert row_rules.krum(rows, 1).numpy().tolist() == [1]
    assert row_rules.multi_krum(rows, 1).numpy() == pytest.approx([8.5 / 4])


def test_geometric_median_by_hand():
    """Of four points around one: where the diagonals cross. Of three on a line: the middle one."""
    cross = tf.constant([[-1.0, 0.0], [3.0, 0.0], [0.0, -2.0], [0.0, 7.0]])
    assert row_rules.geometric_median(cross).numpy() == pytest.approx([0, 0], abs=1e-3)
    assert row_rules.geometric_median(tf.constant([[0.0], [1.0], [10.0]])).numpy() == pytest.approx([1], abs=1e-4)


def test_norm_bound_by_hand():
    rows, weights = tf.constant([[3.0, 4.0], [0.0, 10.0], [30.0, 40.0]]), tf.constant([1.0, 1.0, 2.0])
    # The median norm is 10: the last becomes (6, 8).
    assert row_rules.norm_bound(rows, weights).numpy() == pytest.approx([(3 + 12) / 4, (4 + 10 + 16) / 4])
    far = tf.constant([[3.0, 4.0], [0.0, 10.0], [FAR, FAR]])
    assert np.linalg.norm(row_rules.norm_bound(far, weights)) <= 10


def test_robust_takes_its_first_bound_from_the_cohort():
    """Updates of norm 14 stay what they are; one that is far too long is left out."""
    rows, weights = np.full((4, 2), np.sqrt(98), np.float32), tf.constant([1.0, 2.0, 3.0, 4.0])
    update, bound = by_rows.robust(tf.constant(rows), weights, tf.constant(0.0))
    assert update.numpy() == pytest.approx(rows[0]) and float(bound) == pytest.approx(28 * np.exp(0.2 * (0.8 - 1)))
    rows[3] = FAR
    update, bound = by_rows.robust(tf.constant(rows), weights, tf.constant(0.0))
    assert update.numpy() == pytest.approx(rows[0]) and float(bound) < 28


def test_robust_clips_at_its_bound_and_lets_it_follow():
    rows, weights = tf.constant([[6.0, 8.0], [0.6, 0.8]]), tf.constant([1.0, 3.0])
    update, bound = by_rows.robust(rows, weights, tf.constant(5.0))
    assert update.numpy() == pytest.approx([(3 + 1.8) / 4, (4 + 2.4) / 4])
    assert float(bound) == pytest.approx(5 * np.exp(0.2 * (0.8 - 0.5)))
