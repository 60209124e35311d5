"""Distances from the training images: of the normal distribution they are taken for, and of images far away."""

import numpy as np
import pytest

from tffapps.use.novelty import Novelty


def test_the_distance_is_mahalanobis():
    """With as many directions as dimensions: compared with the inverse of the covariance."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 5)) @ rng.normal(size=(5, 5)) + 3
    others = rng.normal(size=(7, 5))
    fitted = Novelty.fit(values, values)
    centred = others - values.mean(axis=0)
    expected = np.sqrt(np.einsum("ni,ij,nj->n", centred, np.linalg.inv(np.cov(values.T)), centred))
    np.testing.assert_allclose(fitted.distances(others) * fitted.unit, expected, rtol=1e-6)


def test_one_in_a_hundred_of_those_held_back_lies_beyond_one():
    rng = np.random.default_rng(1)
    fitted = Novelty.fit(rng.normal(size=(300, 64)), held_back := rng.normal(size=(1000, 64)))
    assert (fitted.distances(held_back) > 1).mean() == pytest.approx(0.01, abs=0.002)
    assert (fitted.distances(held_back + 2) > 1).mean() > 0.95


def test_what_lies_beside_the_directions_counts():
    """Embeddings that vary in one direction of fifty: a step beside it is far, the same step along it is near."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(200, 50)) * 0.01
    values[:, 0] += rng.normal(size=200) * 5
    fitted = Novelty.fit(values, values)
    along, beside = np.eye(50)[:2]
    assert fitted.distances(along[None])[0] < 1 < fitted.distances(beside[None])[0]


def test_embeddings_that_are_all_equal():
    values = np.ones((30, 8))
    fitted = Novelty.fit(values, values)
    assert fitted.distances(values[:2]).tolist() == [0, 0] and fitted.distances(values[:1] + 1)[0] > 1
