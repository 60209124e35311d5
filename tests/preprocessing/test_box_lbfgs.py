"""L-BFGS in a box, on functions of which the minimum is known."""

import numpy as np
import pytest
import tensorflow as tf

from preprocessing.box_lbfgs import minimise


def quadratic(centre, curvature):
    """½ Σ c (x − centre)² of each image, and its gradient."""

    def objective(x):
        apart = x - centre
        return 0.5 * tf.reduce_sum(curvature * apart**2, axis=[1, 2]), curvature * apart

    return objective


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_minimum_in_the_box_is_found(scale):
    """Curvatures a thousandfold apart; where the centre is outside, a pixel ends at the bound. Losses have any size."""
    rng = np.random.default_rng(0)
    centre = rng.uniform(-0.5, 1.5, (3, 4, 5)).astype(np.float32)
    curvature = (scale * 10 ** rng.uniform(0, 3, (3, 4, 5))).astype(np.float32)
    start = tf.constant(rng.random((3, 4, 5), np.float32))
    found = minimise(quadratic(centre, curvature), start, 80)
    np.testing.assert_allclose(found, np.clip(centre, 0, 1), atol=1e-3)


def test_an_image_does_not_depend_on_its_company():
    rng = np.random.default_rng(1)
    centre, start = rng.random((2, 2, 4, 5), np.float32)
    curvature = np.array([1.0, 1e4], np.float32)[:, None, None] * (1 + 9 * rng.random((2, 4, 5), np.float32))
    together = minimise(quadratic(centre, curvature), tf.constant(start), 6)
    for one in range(2):
        part = slice(one, one + 1)
        alone = minimise(quadratic(centre[part], curvature[part]), tf.constant(start[part]), 6)
        np.testing.assert_allclose(together[part], alone, atol=1e-5)


def test_each_step_is_one_evaluation_and_none_makes_an_image_worse():
    """Also where a step leads to no number, and where the first one is far too long."""
    seen = []

    def objective(x):
        loss = tf.reduce_sum((x - 0.1) ** 4 * 1e6, axis=[1, 2]) - tf.reduce_sum(0 / tf.where(x > 0.9, 0.0, 1.0), [1, 2])
        seen.append(loss.numpy())
        return loss, 4e6 * (x - 0.1) ** 3

    start = tf.fill([1, 2, 2], 0.11)
    found = minimise(objective, start, 12)
    assert len(seen) == 12
    assert (objective(found)[0] <= seen[0]).numpy().all()


def test_steps_are_of_lbfgs():
    """One dimension, by hand: a first step of 0.01, then Newton's by the curvature that it told."""
    objective = quadratic(np.full((1, 1, 1), 0.5, np.float32), np.full((1, 1, 1), 3.0, np.float32))
    start = tf.fill([1, 1, 1], 0.9)
    np.testing.assert_allclose(minimise(objective, start, 2), [[[0.89]]], atol=1e-6)
    np.testing.assert_allclose(minimise(objective, start, 3), [[[0.5]]], atol=1e-5)
