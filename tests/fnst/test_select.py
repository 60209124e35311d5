"""Style images: as diverse as possible, or at random."""

import numpy as np
from sklearn.preprocessing import StandardScaler

from tffapps.fnst import select as module
from tffapps.fnst.data import images_of
from tffapps.fnst.select import choose, farthest, statistics


def test_each_next_point_is_the_farthest_from_those_before():
    points = np.array([[0.0], [1.0], [10.0], [4.0], [5.5]])
    # From 0: 10 is farthest; then 5.5 (4.5 from 10) beats 4 (4 from 0); then 4 is 1.5 from 5.5, 1 is 1 from 0.
    assert farthest(points, 5, first=0).tolist() == [0, 2, 4, 3, 1]
    assert farthest(points, 2, first=3).tolist() == [3, 2]


def test_fewer_points_than_asked_for_and_equal_points():
    assert sorted(farthest(np.zeros((3, 2)), 5, first=1).tolist()) == [0, 1, 2]


def test_a_shorter_choice_begins_a_longer_one(styler, federation):
    images = styler.read(images_of(federation, "client1", "normal").path)
    points = statistics(styler.encoder, images)
    for how in ("diverse", "random"):
        longer = choose(lambda: points, len(images), 6, how, seed=3)
        assert choose(lambda: points, len(images), 3, how, seed=3).tolist() == longer[:3].tolist()
        assert len(set(longer.tolist())) == 6


def test_a_diverse_choice_is_farther_apart_than_random_ones(styler, pool):
    images = styler.read(pool.part("train").path)
    raw = statistics(styler.encoder, images)
    points = StandardScaler().fit_transform(raw)

    def nearest(rows):
        apart = np.linalg.norm(points[rows][:, None] - points[rows], axis=2)
        return apart[np.triu_indices(len(rows), 1)].min()

    diverse = nearest(choose(lambda: raw, len(images), 5, "diverse", seed=0))
    assert all(diverse > nearest(choose(lambda: raw, len(images), 5, "random", seed=seed)) for seed in range(5))


def test_statistics_are_measured_once_for_each_image(styler, pool, monkeypatch):
    rows, counted = pool.part("train")[:9], []
    first = styler.style_images(rows, 4, seed=5)
    monkeypatch.setattr(module, "statistics", lambda encoder, images: counted.append(len(images)))
    assert np.array_equal(styler.style_images(rows, 4, seed=5), first) and not counted
