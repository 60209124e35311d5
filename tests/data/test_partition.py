import numpy as np
import pytest

from tffapps.data import partition
from tffapps.errors import UserError

LABELS = ["a"] * 30 + ["b"] * 17 + ["c"] * 4
SEEDED = {
    "even": lambda seed: partition.even(LABELS, 4, seed),
    "dirichlet": lambda seed: partition.dirichlet(LABELS, 4, 0.5, seed),
    "sorted_shards": lambda seed: partition.sorted_shards(LABELS, 4, seed),
    "stratified": lambda seed: partition.stratified(LABELS, [2, 1, 1], seed),
    "stratified groups": lambda seed: partition.stratified(LABELS, [2, 1, 1], seed, groups=np.arange(51) // 3),
}


def counts(part, labels=LABELS):
    """(parts, classes)"""
    names = sorted(set(labels))
    return np.array([[sum(np.array(labels)[part == p] == name) for name in names] for p in range(part.max() + 1)])


@pytest.mark.parametrize("name", SEEDED)
def test_the_seed_decides(name):
    first = SEEDED[name](5)
    assert np.issubdtype(first.dtype, np.integer) and first.shape == (51,) and first.min() == 0
    assert np.array_equal(first, SEEDED[name](5))
    assert not np.array_equal(first, SEEDED[name](6))


def test_even_parts_have_the_same_size_and_mix():
    found = counts(partition.even(LABELS, 4, 0))
    assert sorted(found.sum(axis=1)) == [12, 13, 13, 13]
    assert (found.max(axis=0) - found.min(axis=0)).max() <= 1


def test_even_one_part_and_as_many_as_images():
    assert set(partition.even(LABELS, 1, 0)) == {0}
    assert sorted(partition.even(LABELS, 51, 0)) == list(range(51))


def test_dirichlet_goes_from_even_to_unlike_with_alpha():
    labels = np.repeat(np.arange(4), 250)

    def unlikeness(alpha):
        found = counts(partition.dirichlet(labels, 5, alpha, seed=1), list(labels))
        assert found.sum() == 1000
        return np.abs(found / 250 - 0.2).mean()

    assert unlikeness(1e4) < 0.01
    assert unlikeness(1e4) < unlikeness(1.0) < unlikeness(0.05)
    assert unlikeness(0.05) > 0.15


def test_dirichlet_keeps_the_smallest_size():
    for seed in range(10):
        assert np.bincount(partition.dirichlet(LABELS, 4, 0.3, seed, min_size=6), minlength=4).min() >= 6


def test_sorted_shards_give_few_classes():
    labels = np.repeat(np.arange(10), 20)
    part = partition.sorted_shards(labels, 10, seed=0)
    assert list(np.bincount(part)) == [20] * 10
    assert max(len(set(labels[part == p])) for p in range(10)) <= 2
    one = partition.sorted_shards(labels, 10, seed=0, shards_per_client=1)
    assert [len(set(labels[one == p])) for p in range(10)] == [1] * 10


def test_by_column_numbers_the_values_in_natural_order():
    part, names = partition.by_column(["s10", "s9", "s10", "s1"])
    assert names == ["s1", "s9", "s10"]
    assert list(part) == [2, 1, 2, 0]


def test_three_stratified_thirds():
    labels = ["a"] * 31 + ["b"] * 13 + ["c"] * 16
    for seed in range(20):
        found = counts(partition.stratified(labels, [1, 1, 1], seed), labels)
        assert list(found.sum(axis=1)) == [20, 20, 20]
        assert (found.max(axis=0) - found.min(axis=0)).max() <= 1


def test_stratified_shares():
    labels = ["a"] * 50 + ["b"] * 20
    assert counts(partition.stratified(labels, [0.7, 0.1, 0.2], 0), labels).tolist() == [
        [35, 14],
        [5, 2],
        [10, 4],
    ]


def test_stratified_spares_even_out_over_many_small_classes():
    labels = [str(number // 3) for number in range(300)]  # a hundred classes of three
    sizes = np.bincount(partition.stratified(labels, [0.5, 0.5], 0))
    assert abs(sizes[0] - sizes[1]) <= 1


def test_groups_stay_together_and_the_mix_is_kept():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), rng.integers(1, 9, 60))
    labels = (groups % 3).astype(str)
    for seed in range(5):
        part = partition.stratified(labels, [0.6, 0.2, 0.2], seed, groups=groups)
        assert all(len(set(part[groups == group])) == 1 for group in set(groups))
        share = counts(part, list(labels))
        share = share / share.sum(axis=0)
        assert np.abs(share - [[0.6], [0.2], [0.2]]).max() < 0.06


@pytest.mark.parametrize(
    "call",
    [
        lambda: partition.even(LABELS, 52, 0),
        lambda: partition.even(LABELS, 0, 0),
        lambda: partition.even([], 1, 0),
        lambda: partition.dirichlet(LABELS, 4, 0.0, 0),
        lambda: partition.dirichlet(LABELS, 4, -1, 0),
        lambda: partition.dirichlet(LABELS, 4, float("nan"), 0),
        lambda: partition.dirichlet(LABELS, 4, 1.0, 0, min_size=13),  # 52 images needed
        lambda: partition.dirichlet(["a"] * 40, 20, 0.01, 0),  # possible, but never drawn
        lambda: partition.sorted_shards(LABELS, 26, 0),
        lambda: partition.sorted_shards(LABELS, 4, 0, shards_per_client=0),
        lambda: partition.by_column([]),
        lambda: partition.stratified(LABELS, [], 0),
        lambda: partition.stratified(LABELS, [0.5, 0.0], 0),
        lambda: partition.stratified(LABELS, [0.5, -0.5], 0),
        lambda: partition.stratified(["a", "b"], [1, 1, 1], 0),
        lambda: partition.stratified(LABELS, [0.999, 0.001], 0),
        lambda: partition.stratified(LABELS, [1, 1, 1], 0, groups=["x"] * 25 + ["y"] * 26),
    ],
)
def test_the_impossible_is_refused(call):
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
