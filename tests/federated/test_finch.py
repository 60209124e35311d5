"""FINCH's first partition: a clustering one can see, and SciPy's connected components."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from tffapps.federated.finch import cluster_means, first_partition, most_clusters


def partition(points, there=None):
    there = np.ones(len(points)) if there is None else np.asarray(there)
    return first_partition(tf.constant(points)[tf.newaxis], tf.constant(there)[tf.newaxis]).numpy()[0]


def reference(points, there):
    """The definition: i and j are joined if one is the other's nearest, or both have the same nearest."""
    rows = np.flatnonzero(there)
    labels = np.full(len(points), -1)
    if len(rows) < 2:
        labels[rows] = 0
        return labels
    unit = points[rows] / np.linalg.norm(points[rows], axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = cosines.argmax(1)
    i, j = np.indices(cosines.shape)
    joined = (nearest[i] == j) | (nearest[j] == i) | (nearest[i] == nearest[j])
    labels[rows] = connected_components(csr_matrix(joined), directed=False)[1]
    return labels


def test_two_directions_whatever_the_lengths():
    points = np.array([[1, 0.1], [0.1, 5], [9, 1.2], [0.2, 3], [2, 0.1]])
    assert partition(points).tolist() == [0, 1, 0, 1, 0]
    assert partition(points, [0, 1, 1, 0, 1]).tolist() == [-1, 0, 0, -1, 0]  # three are always one cluster
    assert partition(points, [0, 0, 0, 1, 0]).tolist() == [-1, -1, -1, 0, -1]
    assert partition(points, np.zeros(5)).tolist() == [-1] * 5


def test_a_chain_is_followed_to_its_end():
    """Each point's nearest is the one before it; the ways are eight steps long."""
    angles = np.cumsum(1.15 ** np.arange(9)) / 10
    points = np.stack([np.cos(angles), np.sin(angles)], 1)
    assert partition(points).tolist() == [0] * 9
    assert partition(points[::-1]).tolist() == [0] * 9


@pytest.mark.parametrize("count", [1, 2, 3, 7, 18, 40])
def test_against_scipy(count):
    rng = np.random.default_rng(count)
    points = rng.normal(size=(30, count, 5))
    there = rng.random((30, count)) < rng.random((30, 1)) * 1.3
    labels = first_partition(tf.constant(points), tf.constant(there.astype(np.float32))).numpy()
    for one, points_of_one, there_of_one in zip(labels, points, there):
        expected = reference(points_of_one, there_of_one)
        assert one.tolist() == expected.tolist()  # SciPy numbers parts in the order of their first points, too
        assert one.max() < most_clusters(there_of_one.sum())


def test_means():
    points = tf.constant(
        [[[1.0, 0.0], [0.0, 4.0], [3.0, 0.0], [0.0, 2.0], [5.0, 5.0]], [[1.0, 2.0]] + [[0.0, 0.0]] * 4]
    )
    found = cluster_means(points, tf.constant([[1.0, 1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]]))
    assert found.means.numpy().tolist() == [[[2, 0], [0, 3]], [[1, 2], [0, 0]]]
    assert found.there.numpy().tolist() == [[1, 1], [1, 0]]


def test_points_without_direction_are_no_trouble():
    assert partition(np.zeros((3, 2))).tolist() == [0, 0, 0]
