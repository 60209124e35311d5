"""Style statistics: by hand, and that they tell how a picture looks and not what is where."""

import numpy as np
import tensorflow as tf

from models import classifiers
from models.style_statistics import mixtures, statistics_of, style_statistics


def test_statistics_by_hand():
    """Two channels, 3 and 4 in one place, 1 and 0 in the other."""
    mean, deviation, gram = statistics_of(tf.constant([[[[3.0, 4.0], [1.0, 0.0]]]]), 0)
    np.testing.assert_allclose(mean, [[2 / 8**0.5, 2 / 8**0.5]], rtol=1e-5)
    np.testing.assert_allclose(deviation, [[1 / 5**0.5, 2 / 5**0.5]], rtol=1e-5)
    upper = np.array([9 + 1, 12, 16])  # of the matrix [[10, 12], [12, 16]]
    np.testing.assert_allclose(gram, [upper / np.linalg.norm(upper)], rtol=1e-5)


def test_where_things_are_does_not_count_and_a_constant_map_has_a_gradient():
    features = tf.random.stateless_normal([1, 4, 4, 40], [1, 2])
    shuffled = tf.reshape(tf.gather(tf.reshape(features, [1, 16, 40]), np.arange(16)[::-1], axis=1), [1, 4, 4, 40])
    for one, other in zip(statistics_of(features, 1), statistics_of(shuffled, 1)):
        np.testing.assert_allclose(one, other, atol=1e-5)
    assert mixtures(40, 1).shape == (40, 16) and np.abs(mixtures(40, 1) - mixtures(40, 2)).max() > 0.1
    constant = tf.ones([1, 2, 2, 3])
    with tf.GradientTape() as tape:
        tape.watch(constant)
        total = sum(tf.reduce_sum(block[:, 0]) for block in statistics_of(constant, 0))
    assert np.isfinite(tape.gradient(total, constant)).all()


def test_of_a_classifier():
    model = classifiers.build("tiny", input_shape=(16, 16, 3), classes=2)
    vectors = style_statistics(model)(np.random.default_rng(0).random((3, 16, 16, 3), np.float32)).numpy()
    blocks = 3 * 3  # three stages, three kinds
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), blocks**0.5, rtol=1e-4)
