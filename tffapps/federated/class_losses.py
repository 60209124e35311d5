"""Losses for classes of unequal size: (labels, probabilities) -> one value for each example.

The networks end in a softmax. The logarithm of a probability is its logit up to a constant that all classes share, so
that shifted logits are shifted logarithms here, and the softmax is taken anew.
"""

from collections.abc import Callable

import tensorflow as tf

from tffapps.federated.task import Loss

LossByCounts = Callable[[tf.Tensor], Loss]  # of the numbers of images of each class, (classes)

_LEAST_PROBABILITY = 1e-7  # Keras's own
_LEAST_COUNT = 1e-8  # of a class that is not there


def focal(gamma: float) -> Loss:
    """Lin et al. 2017, equation 4: (1 − p)^gamma · −log p; what is already right counts less. 0 is cross-entropy."""

    def loss(labels: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
        own = tf.gather(_safe(probabilities), labels, batch_dims=1)
        return (1 - own) ** gamma * -tf.math.log(own)

    return loss


def balanced(plain: Loss) -> LossByCounts:
    """Every class of the client counts the same: an example of class c by images / (classes there · images of c)."""

    def of_counts(counts: tf.Tensor) -> Loss:
        there = tf.math.count_nonzero(counts, dtype=tf.float32)
        weights = tf.math.divide_no_nan(tf.reduce_sum(counts), there * counts)
        return lambda labels, probabilities: tf.gather(weights, labels) * plain(labels, probabilities)

    return of_counts


def logit_adjusted(tau: float) -> LossByCounts:
    """Menon et al. 2021, equation 10: logits + tau · log of the class's share, in training alone.

    A rare class has to win against its rarity, and is not disadvantaged at the test, where nothing is added.
    """

    def of_counts(counts: tf.Tensor) -> Loss:
        shares = tf.maximum(counts, _LEAST_COUNT) / tf.reduce_sum(counts)
        return _shifted(tau * tf.math.log(shares))

    return of_counts


def fedlc(tau: float) -> LossByCounts:
    """FedLC (Zhang et al. 2022): logits − tau · n_c^(−1/4), with the client's own numbers of images.

    The paper's sum leaves out the label's own class; here it is in it, as in a softmax.
    """
    return lambda counts: _shifted(-tau * tf.maximum(counts, _LEAST_COUNT) ** -0.25)


def _shifted(shifts: tf.Tensor) -> Loss:
    def loss(labels: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
        logits = tf.math.log(_safe(probabilities)) + shifts
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    return loss


def _safe(probabilities: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(probabilities, _LEAST_PROBABILITY, 1.0)
