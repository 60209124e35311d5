"""Images dealt to other clients: shares of classes, subjects whole, the same in every split."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tffapps.data.dealing import deal, dealt
from tffapps.data.pool import Pool
from tffapps.errors import UserError

CLASSES = ["a", "b", "c"]


def pool_of(count=300, subjects=False):
    """Three classes in turn; four of five images train. A subject has three images, one of each class."""
    table = pd.DataFrame({"path": [f"{number:03d}.png" for number in range(count)]})
    table["label"] = [CLASSES[number % 3] for number in range(count)]
    table["client"] = "everybody"
    table["split"] = ["test" if number // 3 % 5 == 4 else "train" for number in range(count)]
    if subjects:
        table["subject"] = [f"s{number // 3}" for number in range(count)]
    return Pool("made", table, CLASSES, "key", given=True)


def counts(pool, split):
    """(clients, classes)"""
    rows = pool.part(split)
    return pd.crosstab(rows.client, rows.label).reindex(index=pool.clients, columns=CLASSES, fill_value=0).to_numpy()


def test_by_hand():
    """Of four images of one class and shares of 3/4 and 1/4; of two subjects the larger goes where most is missing."""
    rng = np.random.default_rng(0)
    place = deal(np.zeros(4, int), np.arange(4), np.array([[0.75, 0.25]]), rng)
    assert np.bincount(place).tolist() == [3, 1]
    together = np.array(["x", "x", "x", "y"])
    assert deal(np.zeros(4, int), together, np.array([[0.75, 0.25]]), rng).tolist() == [0, 0, 0, 1]
    assert deal(np.zeros(4, int), together, np.array([[0.25, 0.75]]), rng).tolist() == [1, 1, 1, 0]


def test_alpha_0_is_even():
    found = dealt(pool_of(), 4, 0.0, 0)
    assert found.clients == [f"client_{number}" for number in range(4)]
    assert np.ptp(counts(found, "train"), axis=0).max() <= 1 and len(found.table) == 300


def test_small_alpha_is_unlike_and_test_images_are_like_training_images():
    def unlikeness(alpha):
        shares = counts(dealt(pool_of(3000), 5, alpha, 1), "train")
        return (shares / shares.sum(axis=0)).std()

    assert unlikeness(100.0) < unlikeness(1.0) < unlikeness(0.1)
    found = dealt(pool_of(3000), 5, 0.3, 1)
    train, test = (counts(found, split) for split in ("train", "test"))
    assert np.abs(train / train.sum(axis=0) - test / test.sum(axis=0)).max() < 0.02


def test_a_subject_is_one_clients():
    found = dealt(pool_of(subjects=True), 6, 0.5, 2).table
    assert (found.groupby("subject").client.nunique() == 1).all() and found.client.nunique() == 6
    some = pool_of(subjects=True)
    unknown = dataclasses.replace(some, table=some.table.assign(subject=""))
    alone = dealt(unknown, 6, 0.5, 2).table
    assert alone.groupby(alone.index // 3).client.nunique().max() > 1


def test_the_seed_decides_and_the_key_tells():
    one, same, other = (dealt(pool_of(), 5, 0.5, seed) for seed in (4, 4, 5))
    assert one.table.client.tolist() == same.table.client.tolist() != other.table.client.tolist()
    assert one.key == same.key and len({one.key, other.key, "key"}) == 3
    assert "5 clients dealt by Dirichlet(0.5) over classes, seed 4: " in one.notes[-1]


def test_nobody_is_left_with_next_to_nothing():
    assert min(counts(dealt(pool_of(), 5, 0.2, seed), "train").sum(axis=1).min() for seed in range(10)) >= 10


def test_the_impossible_is_refused():
    with pytest.raises(UserError, match="--clients 300: there are only 240 training images"):
        dealt(pool_of(), 300, 0.0, 0)
    with pytest.raises(UserError, match=r"--dirichlet 0\.001: 1000 draws gave no 10 clients"):
        dealt(pool_of(60), 10, 0.001, 0)
