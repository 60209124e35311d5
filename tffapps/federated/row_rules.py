"""Rules that make one update of many, some of which may be anything: plain TensorFlow, nothing of federation.

`rows` is (clients, d), one update a row, at least one; every client counts the same unless a rule says otherwise,
because an example count is a claim like all else that a client sends.
"""

import tensorflow as tf

_WEISZFELD_STEPS = 64
_LEAST_DISTANCE = 1e-6  # Pillutla et al. 2022, its nu: a point that is met by chance must not have weight infinity


def median(rows: tf.Tensor) -> tf.Tensor:
    """Of every coordinate (Yin et al. 2018); with an even number of clients the mean of the middle two.

    Holds as long as fewer than half of the clients are bad.
    """
    ordered, count = tf.sort(rows, axis=0), tf.shape(rows)[0]
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def trimmed_mean(rows: tf.Tensor, bad: int) -> tf.Tensor:
    """Of every coordinate the mean without the `bad` lowest and the `bad` highest (Yin et al. 2018)."""
    count = tf.shape(rows)[0]
    cut = tf.minimum(bad, (count - 1) // 2)  # fewer rows than there should be: some of the bad ones sent no numbers
    return tf.reduce_mean(tf.sort(rows, axis=0)[cut : count - cut], axis=0)


def krum_scores(rows: tf.Tensor, bad: int) -> tf.Tensor:
    """(clients): the sum of squared distances to the nearest n − bad − 2 others (Blanchard et al. 2017)."""
    squares = tf.map_fn(lambda row: tf.reduce_sum((rows - row) ** 2, axis=1), rows)
    others = tf.sort(squares, axis=1)[:, 1:]  # the nearest is the client itself
    return tf.reduce_sum(others[:, : tf.maximum(tf.shape(rows)[0] - bad - 2, 1)], axis=1)


def krum(rows: tf.Tensor, bad: int) -> tf.Tensor:
    """The update of the client with the lowest score."""
    return rows[tf.argmin(krum_scores(rows, bad))]


def multi_krum(rows: tf.Tensor, bad: int) -> tf.Tensor:
    """The mean over the n − bad clients with the lowest scores."""
    best = tf.argsort(krum_scores(rows, bad), stable=True)[: tf.maximum(tf.shape(rows)[0] - bad, 1)]
    return tf.reduce_mean(tf.gather(rows, best), axis=0)


def geometric_median(rows: tf.Tensor) -> tf.Tensor:
    """The point with the least sum of distances to all rows, by Weiszfeld's steps from the coordinate median.

    Holds as long as fewer than half of the clients are bad. (Pillutla et al. 2022 begin with the mean and weigh clients
    by their examples.)
    """

    def step(number: tf.Tensor, point: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        nearness = 1 / tf.maximum(tf.norm(rows - point, axis=1), _LEAST_DISTANCE)
        return number + 1, tf.linalg.matvec(rows, nearness, transpose_a=True) / tf.reduce_sum(nearness)

    _, point = tf.while_loop(lambda number, _: number < _WEISZFELD_STEPS, step, (tf.constant(0), median(rows)))
    return point


def norm_bound(rows: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The mean by examples of updates clipped at the median of their norms (Sun et al. 2019: at a fixed norm).

    No client moves the model farther than that, but as many as there are may do so in one direction.
    """
    norms = tf.norm(rows, axis=1)
    return clipped_mean(rows, norms, weights, median(norms))


def clipped_mean(rows: tf.Tensor, norms: tf.Tensor, weights: tf.Tensor, bound: tf.Tensor) -> tf.Tensor:
    shares = weights * tf.minimum(1.0, tf.math.divide_no_nan(bound, norms))
    return tf.math.divide_no_nan(tf.linalg.matvec(rows, shares, transpose_a=True), tf.reduce_sum(weights))


def masked_share(flags: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Of those in the mask, how many have the flag."""
    inside = tf.cast(mask, tf.float32)
    return tf.reduce_sum(tf.cast(flags, tf.float32) * inside) / tf.reduce_sum(inside)
