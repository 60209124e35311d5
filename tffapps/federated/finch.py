"""FINCH (Sarfraz et al. 2019), its first partition: points are clustered by who is whose nearest neighbour.

Every point is joined to its nearest neighbour by cosine; the connected parts of that graph are the clusters. There is
nothing to choose, least of all their number, which is at most half that of the points (one for a point alone). FINCH
goes on to cluster the clusters' means; the later partitions are not made here.

For a handful of points, in many sets at once: all is done with dense (points, points) matrices.
"""

import math
from typing import NamedTuple

import tensorflow as tf

from tffapps.federated.embeddings import EPSILON


class Clusters(NamedTuple):
    means: tf.Tensor  # (sets, most, d), zeros where there is no cluster
    there: tf.Tensor  # float32 (sets, most): 0 or 1


def most_clusters(points: int) -> int:
    return max(points // 2, 1)


def first_partition(points: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """Clusters of the points (sets, n, d) whose `there` (sets, n) is not 0, n known: int32 (sets, n).

    Clusters are numbered from 0 in the order of their first points; what is not there is −1.
    """
    count, there = points.shape[1], there > 0
    unit = tf.math.l2_normalize(points, axis=-1, epsilon=EPSILON)
    cosines = tf.matmul(unit, unit, transpose_b=True)
    pairs = tf.logical_and(there[:, :, tf.newaxis], there[:, tf.newaxis])
    oneself = tf.eye(count, dtype=tf.bool)
    nearest = tf.argmax(tf.where(tf.logical_and(pairs, tf.logical_not(oneself)), cosines, -2.0), axis=-1)
    joined = tf.logical_and(tf.one_hot(nearest, count, on_value=True, off_value=False), pairs)
    joined = joined | tf.linalg.matrix_transpose(joined) | oneself
    for _ in range(math.ceil(math.log2(max(count, 2)))):  # each doubles the length of the ways that are followed
        ways = tf.cast(joined, tf.float32)
        joined = tf.matmul(ways, ways) > 0
    first = tf.argmax(tf.cast(joined, tf.int32), axis=-1, output_type=tf.int32)  # the lowest number in one's cluster
    begins = tf.logical_and(first == tf.range(count), there)
    number = tf.cumsum(tf.cast(begins, tf.int32), axis=-1) - 1
    return tf.where(there, tf.gather(number, first, batch_dims=1), -1)


def cluster_means(points: tf.Tensor, there: tf.Tensor) -> Clusters:
    """The mean of the points in each cluster of `first_partition`."""
    one_hot = tf.one_hot(first_partition(points, there), most_clusters(points.shape[1]))  # (sets, n, most)
    counts = tf.reduce_sum(one_hot, axis=1)
    sums = tf.matmul(one_hot, points, transpose_a=True)
    return Clusters(tf.math.divide_no_nan(sums, counts[..., tf.newaxis]), tf.cast(counts > 0, tf.float32))
